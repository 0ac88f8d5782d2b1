#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the host's time per operation in a compiled step and in eager PyTorch, with one thread and one rank.

The model is so small that its kernels take little time. Rounds of both alternate, so that a busy machine slows both.
Times are medians. Nothing is asserted, because times depend on the machine.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import fcdp

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "bin"
sys.path.insert(0, str(ROOT / "examples" / "gpt"))

from model import GPT, GPTConfig  # noqa: E402

VOCABULARY, CONTEXT, BATCH = 64, 8, 1
# The first steps fill the pool and PyTorch's caches.
WARM_UP = 10


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: .venv/bin/python benchmarks/dispatch/run.py --layers 12",
    )
    parser.add_argument("--layers", type=int, default=6, help="layers of the GPT example (default 6)")
    parser.add_argument("--width", type=int, default=16, help="width of the GPT example (default 16)")
    parser.add_argument("--steps", type=int, default=200, help="steps per round (default 200)")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = GPT(GPTConfig(VOCABULARY, context=CONTEXT, layers=args.layers, heads=2, width=args.width))
    ids = torch.randint(VOCABULARY, (BATCH, CONTEXT))
    labels = torch.randint(VOCABULARY, (BATCH, CONTEXT))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fcdp.export(model, (ids, labels), folder / "step.pt2")
        inputs = input_names(folder / "step.pt2")
        plan = compile_step(folder)
        calls = sum(op["body_type"] == "aten_call" for op in plan["ops"])
        ours, eager = [], []
        for _ in range(args.rounds):
            ours += run_compiled(folder, inputs, args.steps)
            eager += run_eager(model, ids, labels, args.steps)
    print(f"{calls} operations, {args.rounds} rounds of {args.steps} steps of forward, backward and AdamW")
    report("compiled", ours, calls)
    report("eager", eager, calls)
    print(f"ratio, eager / compiled: {statistics.median(eager) / statistics.median(ours):.2f}")


def input_names(archive: Path) -> list[str]:
    return list(torch.export.load(archive).graph_signature.user_inputs)


def compile_step(folder: Path) -> dict:
    command = [BIN / "fcdp-compile", folder / "step.pt2", "--strategy=zero3"]
    text = subprocess.run([*command, "--emit=plan-json"], check=True, capture_output=True, text=True).stdout
    subprocess.run([*command, "-o", folder / "step.so"], check=True, capture_output=True)
    return json.loads(text)


def run_compiled(folder: Path, inputs: list[str], steps: int) -> list[float]:
    """Seconds of each step."""
    log = folder / "log.jsonl"
    command = [BIN / "fcdp-run", folder / "step.so", f"--weights={folder / 'step.pt2'}", "--threads=1"]
    command += [f"--steps={steps + WARM_UP}", f"--json={log}"]
    command += [f"--input={name}=random:1" for name in inputs]
    subprocess.run(command, check=True, capture_output=True)
    return [json.loads(line)["seconds"] for line in log.read_text().splitlines()][WARM_UP:]


def run_eager(model: GPT, ids: torch.Tensor, labels: torch.Tensor, steps: int) -> list[float]:
    """Seconds of each step."""
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    seconds = []
    for _ in range(steps + WARM_UP):
        start = time.perf_counter()
        model(ids, labels).backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
    return seconds[WARM_UP:]


def report(name: str, seconds: list[float], calls: int) -> None:
    median = statistics.median(seconds)
    print(f"{name}: {median * 1e6:.0f} us a step, {median / calls * 1e9:.0f} ns an operation")


if __name__ == "__main__":
    main()
