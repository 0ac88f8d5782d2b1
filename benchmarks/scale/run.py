#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how compile time and memory grow with the number of layers of a Llama with the shapes of the 405B model.

It also measures the time to simulate a step on 1,024 nodes.

The model is built under FakeTensorMode, so model and archive have no weights. Times are those of one run each.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import fcdp

ROOT = Path(__file__).resolve().parents[2]
# Table 3 of The Llama 3 Herd of Models, arXiv 2407.21783.
SHAPES = dict(
    hidden_size=16384, intermediate_size=53248, num_attention_heads=128, num_key_value_heads=8, vocab_size=128256
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: .venv/bin/python benchmarks/scale/run.py --layers 8 126",
    )
    parser.add_argument("--layers", type=int, nargs="+", default=[4, 8, 16, 32], help="numbers of layers (default 4 8 16 32)")
    parser.add_argument("--sequence", type=int, default=4096, help="tokens per sequence (default 4096)")
    parser.add_argument("--passes", action="store_true", help="also print the time of each pass")
    args = parser.parse_args()
    print(f"{'layers':>6} {'operations':>10} {'export s':>9} {'compile s':>9} {'us/op':>6} {'compile MB':>10} {'object MB':>9} {'simulate s':>10}")
    for layers in args.layers:
        with tempfile.TemporaryDirectory() as name:
            measure(Path(name), layers, args)


def measure(folder: Path, layers: int, args: argparse.Namespace) -> None:
    archive, step = folder / "step.pt2", folder / "step.so"
    begin = time.perf_counter()
    export(archive, layers, args.sequence)
    exported = time.perf_counter() - begin
    begin = time.perf_counter()
    peak = compile_step(archive, step)
    compiled = time.perf_counter() - begin
    begin = time.perf_counter()
    command = [ROOT / "build/bin/fcdp-sim", archive, "--cluster=h100", "--nodes=1024", "--strategy=fcdp"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    simulated = time.perf_counter() - begin
    module = folder / "step.mlir"
    subprocess.run([ROOT / "build/bin/fcdp-translate", "--import-pt2", archive, "-o", module], check=True)
    operations = module.read_text().count("aten.call")
    print(
        f"{layers:>6} {operations:>10,} {exported:>9.1f} {compiled:>9.2f} {compiled / operations * 1e6:>6.0f} "
        f"{peak / 1e6:>10,.0f} {step.stat().st_size / 1e6:>9.1f} {simulated:>10.2f}",
        flush=True,
    )
    if args.passes:
        pipeline = "--fcdp-pipeline=strategy=fcdp nodes=128 ranks-per-node=8"
        subprocess.run(
            [ROOT / "build/bin/fcdp-opt", module, pipeline, "--mlir-timing", "-o", folder / "planned.mlir"], check=True
        )


def export(archive: Path, layers: int, sequence: int) -> None:
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    warnings.simplefilter("ignore")
    from transformers import LlamaConfig, LlamaForCausalLM

    class Step(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = LlamaConfig(num_hidden_layers=layers, max_position_embeddings=sequence, **SHAPES)
            self.model = LlamaForCausalLM(config)

        def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return self.model(input_ids=ids, labels=labels, use_cache=False).loss

    torch.set_default_dtype(torch.bfloat16)
    with FakeTensorMode():
        model = Step()
    ids = torch.zeros(1, sequence, dtype=torch.int64)
    fcdp.export(model, (ids, ids.clone()), archive, check=False)


# A separate process, because a child's peak includes the memory of its parent.
PEAK = """import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"""


def compile_step(archive: Path, step: Path) -> int:
    """Compiles the step and returns the peak of resident bytes."""
    options = ["--nodes=128", "--ranks-per-node=8", "--strategy=fcdp", "--optimizer=adamw,lr=1e-3", "-o", str(step)]
    command = [sys.executable, "-c", PEAK, ROOT / "build/bin/fcdp-compile", archive, *options]
    return 1024 * int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


if __name__ == "__main__":
    sys.exit(main())
