# SPDX-License-Identifier: Apache-2.0
"""The programs that each rank of a row runs: fcdp-run with a compiled step, or a peer's rank."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file

import fcdp
from data import Data
from netns import DEVICE
from packages import python_with
from rows import Compiled, Peer
from settings import LR, NODES, OPTIMIZER, RANKS, RANKS_PER_NODE, SEED, Setting
from steps import BATCH, ROOT, build

BIN = ROOT / "build" / "bin"


class Unavailable(RuntimeError):
    """A row cannot run. The message is the reason."""


@dataclass
class Ran:
    losses: list[float]
    seconds: list[float]
    counted: int | None = None
    """Bytes that each node sent in the last step by fcdp's own count."""


@dataclass
class Program:
    command: Callable[[int], list[str]]
    """Returns a rank's command for a number of steps."""
    read: Callable[[], Ran]
    planned: int | None = None
    """Bytes that each node sends in a step by fcdp's plan."""


@dataclass(frozen=True)
class Exported:
    archive: Path
    weights: Path
    parameters: int
    trained: int


def export(setting: Setting, data: Data, folder: Path) -> Exported:
    """Exports the model for fcdp. Weights are in float32, and become the masters of narrower parameters."""
    model = build(setting.model, data.vocabulary, SEED)
    weights, archive = folder / "weights.safetensors", folder / "step.pt2"
    named = dict(model.named_parameters())
    save_file({name: p.detach().clone() for name, p in named.items()}, weights)
    if setting.dtype == "bf16":
        # Buffers stay in float32, as they do under FSDP2.
        for parameter in named.values():
            parameter.data = parameter.data.to(torch.bfloat16)
    fcdp.export(model, data.first_row(), archive)
    sizes = [(p.numel(), p.requires_grad) for p in named.values()]
    return Exported(archive, weights, sum(n for n, _ in sizes), sum(n for n, trained in sizes if trained))


def compiled(row: Compiled, setting: Setting, exported: Exported, data: Data, folder: Path) -> Program:
    step, log = folder / f"{row.name}.so", folder / f"{row.name}.jsonl"
    strategy = [] if any(option.startswith("--strategy=") for option in row.options) else ["--strategy=fcdp"]
    command = [
        *(BIN / "fcdp-compile", exported.archive, "-o", step, *strategy, f"--optimizer={OPTIMIZER}"),
        *(f"--nodes={NODES}", f"--ranks-per-node={RANKS_PER_NODE}", f"--micro-batches={setting.micro_batches}"),
        *(["--master=f32", "--reduce-dtype=bf16"] if setting.dtype == "bf16" else []),
        *row.options,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable((done.stderr.splitlines() or [f"fcdp-compile ended with exit code {done.returncode}"])[0])
    sent = re.search(r"^step +(?:at most +)?(\d+)", done.stdout, re.MULTILINE)
    if sent is None:
        raise RuntimeError(f"expected the bytes of a step from fcdp-compile, got:\n{done.stdout}")
    inputs = [f"--input={name}={path}" for name, path in data.files.items()]
    weights = [f"--weights={path}" for path in (exported.weights, exported.archive)]
    run = [str(BIN / "fcdp-run"), str(step), *weights, f"--json={log}", "--threads=1"]

    def read() -> Ran:
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return Ran([x["loss"] for x in lines], [x["seconds"] for x in lines], lines[-1]["inter_bytes_sent"])

    # The last step of a run may be one without an outer step.
    planned = int(sent[1]) if row.cycle == 1 else None
    return Program(lambda steps: [*run, f"--steps={steps}", *inputs], read, planned)


def peer(row: Peer, setting: Setting, data: Data, folder: Path) -> Program:
    python = python_with(row.package) if row.package else Path(sys.executable)
    out = folder / f"{row.name}.json"
    job = {
        **dict(trainer=row.trainer, settings=row.settings, interface=DEVICE),
        **dict(ranks=RANKS, ranks_per_node=RANKS_PER_NODE, micro_batches=setting.micro_batches),
        **dict(model=setting.model, dtype=setting.dtype, vocabulary=data.vocabulary, seed=SEED, lr=LR),
        **dict(inputs=[str(path) for path in data.files.values()], batch=BATCH, out=str(out)),
    }
    program = str(Path(__file__).with_name("rank.py"))
    return Program(
        lambda steps: [str(python), program, json.dumps({**job, "steps": steps})],
        lambda: Ran(**json.loads(out.read_text())),
    )
