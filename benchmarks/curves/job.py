# SPDX-License-Identifier: Apache-2.0
"""Trains a model with fcdp, killed twice and resumed."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

import fcdp
from models import ROOT, Case, Rows, Text, build
from plain import Curve
from settings import NODES, RANKS_PER_NODE, Settings

sys.path.insert(0, str(ROOT / "test" / "e2e"))

from closed_forms import buckets, traffic  # noqa: E402

BIN = ROOT / "build" / "bin"


@dataclass
class Job:
    curve: Curve
    resumed_at: list[int]
    """Steps of the checkpoints from which the job went on."""
    bytes_sent: set[int]
    """Bytes that a node sent to others in a step; different ones in the log."""
    bytes_expected: int
    """The same by the closed form."""


def train(case: Case, settings: Settings, folder: Path, seed: int = 0) -> Job:
    folder.mkdir(parents=True, exist_ok=True)
    text = Text()
    step, weights = _compile(case, settings, text, folder, seed)
    inputs = text.training_rows(settings.rows, seed).save(folder, "train")
    held_out = text.evaluation_rows(settings.evaluation_rows).save(folder, "held-out")
    log = folder / "log.jsonl"
    command = [
        *(BIN / "fcdp-run", step, f"--weights={weights}", f"--steps={settings.steps}", "--threads=1", f"--json={log}"),
        *(f"--input={name}={path}" for name, path in inputs.items()),
        *(f"--eval-input={name}={path}" for name, path in held_out.items()),
        f"--schedule=cosine,warmup={settings.warmup},steps={settings.steps},min={settings.floor}",
        *(f"--eval-every={settings.eval_every}", f"--save-every={settings.save_every}"),
        *(f"--save-dir={folder / 'run'}", "--keep=2", "--resume", "--log-every=100"),
    ]
    with (folder / "output.txt").open("w") as output:
        for kill in settings.kills:
            _run_until(command, log, kill, output)
        subprocess.run(command, check=True, stdout=output, stderr=output)
    return _read(step, log, (folder / "output.txt").read_text())


def _compile(case: Case, settings: Settings, text: Text, folder: Path, seed: int) -> tuple[Path, Path]:
    model = build(case, text.vocabulary, seed)
    weights = folder / "weights.safetensors"
    save_file({name: parameter.detach().clone() for name, parameter in model.named_parameters()}, weights)
    if case.precision == "masters":
        model.to(torch.bfloat16)
    fcdp.export(model, _first(text.training_rows(1, seed)), folder / "train.pt2")
    fcdp.export(model.eval(), _first(text.evaluation_rows(1)), folder / "eval.pt2", train=False)
    step = folder / "step.so"
    optimizer = f"adamw,lr={settings.lr},beta2={settings.beta2},weight_decay={settings.weight_decay}"
    command = [
        *(BIN / "fcdp-compile", folder / "train.pt2", f"--eval={folder / 'eval.pt2'}", "-o", step),
        *(f"--nodes={NODES}", f"--ranks-per-node={RANKS_PER_NODE}", "--strategy=fcdp"),
        *(f"--micro-batches={settings.micro_batches}", "--accumulate=node", f"--optimizer={optimizer}"),
        *(f"--group={case.decay_free}:weight_decay=0", f"--clip-norm={settings.clip_norm}"),
        *(["--master=f32", "--reduce-dtype=f32"] if case.precision == "masters" else []),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return step, weights


def _first(rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(rows.ids[0]), torch.from_numpy(rows.labels[0])


def _run_until(command: list[Any], log: Path, step: int, output: Any) -> None:
    """Starts the job and kills all its processes as soon as that step is in the log."""
    process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    while process.poll() is None and _last_step(log) < step:
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.wait() > 0:
        raise RuntimeError(f"the job ended with exit code {process.returncode}; its output is in {output.name}")


def _last_step(log: Path) -> int:
    """Returns the step of the last whole line of a log, or 0."""
    if not log.exists():
        return 0
    with log.open("rb") as file:
        file.seek(max(log.stat().st_size - 4096, 0))
        lines = file.read().split(b"\n")[:-1]
    return json.loads(lines[-1])["step"] if lines else 0


def _read(step: Path, log: Path, output: str) -> Job:
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    steps = [line for line in lines if "loss" in line]
    evaluations = {line["step"]: line["evaluation_loss"] for line in lines if "evaluation_loss" in line}
    plan = json.loads(subprocess.run([BIN / "fcdp-compile", step, "--emit=plan-json"], check=True, capture_output=True).stdout)
    # Bytes between nodes do not depend on how often a step needs a bucket, only on whether it does.
    uses = {bucket.unit: 1 for bucket in buckets(plan)}
    return Job(
        Curve([line["loss"] for line in steps], evaluations),
        [int(found) for found in re.findall(r"^resumed from .*step-(\d+)$", output, re.MULTILINE)],
        {line["inter_bytes_sent"] for line in steps},
        traffic(plan, "fcdp", uses, "node")[1].inter,
    )
