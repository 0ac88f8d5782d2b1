#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judges the verdicts of fcdp-sim --fit on the CPU: a step that fits a device by --fit runs within its memory.

For each model and setting, the device has the memory that the plan needs and WORKSPACE bytes, which its description
reserves for libraries, as those of GPUs do. The step is compiled for that device and run on one rank. The verdict holds
if the greatest memory of the rank in use is at most the device's.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
STEPS = 3
GIB = 2**30
# The memory that kernels of libtorch take for themselves, which no plan knows.
WORKSPACE = 256 * 2**10
SETTINGS = {
    "full": (
        "none",
        "remat=unit",
        "loss-chunk=64",
        "states=host",
        "activations=host",
        "remat=unit+loss-chunk=64+states=host",
        "remat=auto+states=auto+activations=auto",
    ),
    "lora": ("none", "frozen=nf4", "remat=unit+frozen=nf4+activations=host"),
}


@dataclass(frozen=True)
class Verdict:
    model: str
    settings: str
    memory: int
    planned: int
    peak: int

    @property
    def holds(self) -> bool:
        return self.peak <= self.memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=SETTINGS, default=list(SETTINGS), metavar="MODEL")
    parser.add_argument("--settings", nargs="+", metavar="SETTINGS", help="default: ten of them")
    parser.add_argument("--tools", type=Path, default=ROOT / "build/bin", metavar="FOLDER")
    args = parser.parse_args()
    print("| model | settings | memory | planned | measured peak | more than planned |")
    print("|---|---|--:|--:|--:|--:|")
    verdicts = []
    with tempfile.TemporaryDirectory() as folder:
        for model in args.models:
            archive, inputs = export(Path(folder), model)
            for one in judge(archive, inputs, model, args.settings or SETTINGS[model], args.tools, Path(folder)):
                verdicts.append(one)
                numbers = f"{one.memory:,} | {one.planned:,} | {one.peak:,} | {one.peak - one.planned:,}"
                print(f"| {one.model} | `{one.settings}` | {numbers} |", flush=True)
    wrong = [verdict for verdict in verdicts if not verdict.holds]
    print(f"{len(verdicts) - len(wrong)} of {len(verdicts)} verdicts hold")
    sys.exit(1 if wrong else 0)


def judge(
    archive: Path, inputs: list[str], model: str, settings: Sequence[str], tools: Path, folder: Path
) -> list[Verdict]:
    """Asks for the memory of each setting, and runs the step on a device that has it."""
    most = predict(tools, archive, describe(folder, 4 * GIB), settings[0])["device_bytes"]
    verdicts = []
    for setting in settings:
        # `auto` gets a device on which the step does not fit without moving or recomputing.
        least = 9 * most // 10
        if "auto" not in setting:
            least = predict(tools, archive, describe(folder, 4 * GIB), setting)["device_bytes"]
        memory = least + WORKSPACE
        cluster = describe(folder, memory)
        point = predict(tools, archive, cluster, setting)
        if not point["fits"]:
            sys.exit(f"expected {model} with {setting} to fit {memory} bytes, got {point['device_bytes']}")
        options = [] if setting == "none" else [f"--{option}" for option in setting.split("+")]
        step, log = folder / "step.so", folder / "log.jsonl"
        run(tools / "fcdp-compile", archive, *common(cluster), f"--device-memory={least}", *options, "-o", step)
        run(tools / "fcdp-run", step, f"--weights={archive}", f"--steps={STEPS}", "--threads=1", f"--json={log}", *inputs)
        steps = [json.loads(line) for line in log.read_text().splitlines()]
        # The first step is recorded, and takes memory beside the plan.
        peak = max(step["device_peak_bytes"] for step in steps[1:])
        verdicts.append(Verdict(model, setting, memory, point["device_bytes"], peak))
    return verdicts


def describe(folder: Path, memory: int) -> Path:
    """Returns a description of this machine as one whose device has so much memory."""
    text = (ROOT / "cluster/cpu.yaml").read_text()
    cluster = folder / f"{memory}.yaml"
    device = f"  memory: {memory}\n  reserved: {{workspace: {WORKSPACE}}}\n"
    cluster.write_text(re.sub(r"  memory: 4e9.*\n", device, text, count=1))
    return cluster


def common(cluster: Path) -> list[str]:
    return [f"--cluster={cluster}", "--nodes=1", "--ranks-per-node=1", "--strategy=zero3"]


def predict(tools: Path, archive: Path, cluster: Path, setting: str) -> dict[str, Any]:
    out = run(tools / "fcdp-sim", archive, *common(cluster), f"--fit={setting}", "--json")
    [point] = json.loads(out)["sweep"]["points"]
    if "fits" not in point:
        sys.exit(f"expected a plan with {setting}, got {point}")
    return point


def run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr[-2000:]}")
    return done.stdout


def export(folder: Path, model: str) -> tuple[Path, list[str]]:
    warnings.simplefilter("ignore")
    import torch
    import transformers

    import fcdp

    torch.manual_seed(0)
    shapes = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4, "num_attention_heads": 4}
    config = transformers.LlamaConfig(**shapes, vocab_size=1024, max_position_embeddings=256, use_cache=False)
    network = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    if model == "lora":
        from peft import LoraConfig, get_peft_model

        adapter = LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM")
        network = get_peft_model(network, adapter, autocast_adapter_dtype=False)
    ids = torch.zeros(2, 256, dtype=torch.int64)
    archive = folder / f"{model}.pt2"
    fcdp.export(network, {"input_ids": ids, "labels": ids.clone()}, archive, check=False)
    return archive, ["--input=input_ids=random:0:1024", "--input=labels=random:0:1024"]


if __name__ == "__main__":
    main()
