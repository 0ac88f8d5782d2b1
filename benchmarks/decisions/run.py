#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the predicted step time of each strategy on described clusters, beside the lower bound for any schedule.

Models are built under FakeTensorMode, in float32 with autocast to bfloat16, and compiled with activation checkpointing
by unit. The bound is that of docs/rationale/prediction.md. Bytes are planned and times are predicted. Fails if auto is
slower than a preset that fits in the cluster's memory.
"""

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import fcdp

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "simulator"))

from presets import read_preset  # noqa: E402

STRATEGIES = ["zero3", "zero2", "zero1", "hpz", "fcdp", "hsdp", "mics", "ddp", "auto"]
# Predictions are printed with four digits.
TOLERANCE = 1.001


def make_llama() -> torch.nn.Module:
    """Llama 3 8B (arXiv 2407.21783)."""
    from transformers import LlamaConfig, LlamaForCausalLM

    shapes = dict(hidden_size=4096, intermediate_size=14336, num_attention_heads=32, num_key_value_heads=8)
    return LlamaForCausalLM(LlamaConfig(num_hidden_layers=32, vocab_size=128256, max_position_embeddings=4096, **shapes))


def make_gpt() -> torch.nn.Module:
    """GPT-10B of the FCDP paper (arXiv 2602.06499)."""
    from transformers import GPT2Config, GPT2LMHeadModel

    dropouts = dict(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    return GPT2LMHeadModel(GPT2Config(n_layer=40, n_embd=4800, n_head=40, vocab_size=50257, n_positions=1024, **dropouts))


MODELS = {"llama-8b": (make_llama, (1, 4096)), "gpt-10b": (make_gpt, (4, 1024))}


class Step(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return self.model(input_ids=ids, labels=labels, use_cache=False).loss


def export(name: str, archive: Path) -> None:
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    warnings.simplefilter("ignore")
    make, shape = MODELS[name]
    with FakeTensorMode():
        step = Step(make())
    ids = torch.zeros(shape, dtype=torch.int64)
    fcdp.export(step, (ids, ids.clone()), archive, check=False)


@dataclass
class Measured:
    text: str
    seconds: float = math.inf
    """Predicted seconds per step; infinite if the plan does not fit."""


def memory_of(cluster: str) -> tuple[float, float]:
    """Returns the memory of a device and of a host, in bytes."""
    preset = read_preset(cluster)
    return float(preset["device"]["memory"]), float(preset["host"]["memory"])


def measure(archive: Path, cluster: str, strategy: str, out: Path) -> Measured:
    command = [ROOT / "build/bin/fcdp-compile", archive, f"--cluster={cluster}", f"--strategy={strategy}", "--remat=unit"]
    done = subprocess.run([*command, "-o", out], capture_output=True, text=True)
    if done.returncode:
        return Measured("does not fit: " + done.stderr.strip().splitlines()[-1].split("error: ")[-1])
    text = done.stdout
    device, host = map(int, re.search(r"memory +device (\d+) .* host (\d+)", text).groups())
    inter = int(re.search(r"step +(\d+) bytes", text)[1])
    seconds, bound = float(re.search(r"predicted +(\S+) s", text)[1]), float(re.search(r"less than (\S+) s", text)[1])
    row = f"{inter / 1e9:>9.2f} {device / 1e9:>10.2f} {host / 1e9:>8.2f} {seconds:>8.3f} {bound:>8.3f} {seconds / bound:>6.2f}"
    most = memory_of(cluster)
    fits = device <= most[0] and host <= most[1]
    return Measured(row + ("" if fits else " (does not fit)"), seconds if fits else math.inf)


def compare(model: str, archive: Path, cluster: str, out: Path) -> bool:
    """Prints a table and returns whether no preset is faster than auto."""
    print(f"\n{model} on {cluster}\n{'':8} {'inter GB':>9} {'device GB':>10} {'host GB':>8} {'s/step':>8} {'bound s':>8} ratio")
    seconds = {}
    for strategy in STRATEGIES:
        measured = measure(archive, cluster, strategy, out)
        seconds[strategy] = measured.seconds
        print(f"{strategy:8} {measured.text}", flush=True)
    return seconds["auto"] <= TOLERANCE * min(seconds.values())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: .venv/bin/python benchmarks/decisions/run.py --models llama-8b --clusters a40-rdma h100",
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--clusters", nargs="+", default=["a40-rdma", "a40-10gbe", "a100-80gb", "h100"])
    parser.add_argument("--archives", type=Path, help="folder with MODEL.pt2 files; missing ones are exported into it")
    args = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory() as name:
        for model in args.models:
            archive = (args.archives or Path(name)) / f"{model}.pt2"
            if not archive.exists():
                export(model, archive)
            for cluster in args.clusters:
                good &= compare(model, archive, cluster, Path(name) / "step.o")
    if not good:
        sys.exit("auto is slower than a preset")


if __name__ == "__main__":
    main()
