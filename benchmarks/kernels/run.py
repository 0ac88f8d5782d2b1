#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures kernels that the compiler writes beside PyTorch's operators, and steps with them beside steps without.

Times are of one thread of the processor, and medians of rounds that alternate, so that a busy machine slows both.
Ratios above 1 say that kernels are faster. `exhaustive` compares the inline exponential function with libtorch's for
all 2^32 values, on each level that the processor has, and fails if a value differs. Nothing else is asserted.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "bin"
sys.path.insert(0, str(ROOT / "test" / "e2e"))

from kernel_functions import KernelFunction, Sleef, make_exp, runnable_levels  # noqa: E402

PARTS = ("kernels", "step", "exhaustive")
SHAPE = (512, 1376)
NAMES = {torch.float32: "f32", torch.bfloat16: "bf16"}


def swiglu_text(name: str) -> str:
    """A step whose only pointwise operators are SwiGLU's, forwards or backwards."""
    typed = f"tensor<{SHAPE[0]}x{SHAPE[1]}x{name}>"
    head = "module attributes {fcdp.phase = #fcdp.phase<imported>} {\n" + "".join(f'  fcdp.input @{i} : {typed} name "{i}"\n' for i in "gud")
    reads = "".join(f"    %{i} = fcdp.read_input @{i} : {typed}\n" for i in "gud")
    return (
        head
        + '  fcdp.parameter @w : tensor<4xf32> unit "" trainable names ["w"]\n  func.func @step() {\n'
        + reads
        + "BODY"
        + f'    %l = aten.call "aten.sum.default"(self = %y) : ({typed}) -> tensor<{name}>\n'
        + "    %w = fcdp.read_parameter @w : tensor<4xf32>\n"
        + '    %e = aten.call "aten.exp.default"(self = %w) : (tensor<4xf32>) -> tensor<4xf32>\n'
        + f"    fcdp.gradient %e of @w : tensor<4xf32>\n    fcdp.loss %l : tensor<{name}>\n    return\n  }}\n}}\n"
    )


def call(result: str, operator: str, arguments: str, count: int, name: str) -> str:
    typed = f"tensor<{SHAPE[0]}x{SHAPE[1]}x{name}>"
    return f'    %{result} = aten.call "{operator}"({arguments}) : ({", ".join([typed] * count)}) -> {typed}\n'


def median_of(rounds: int, *runs: Callable[[], object]) -> list[float]:
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for run, found in zip(runs, times):
            start = time.thread_time()
            run()
            found.append(time.thread_time() - start)
    return [statistics.median(found) for found in times]


def measure_kernels(folder: Path, rounds: int) -> None:
    print(f"SwiGLU of {SHAPE[0]} x {SHAPE[1]}: PyTorch's time / the kernel's")
    for dtype, name in NAMES.items():
        g, u, d = (torch.randn(SHAPE).to(dtype) for _ in range(3))
        forward = call("s", "aten.silu.default", "self = %g", 1, name) + call("y", "aten.mul.Tensor", "self = %s, other = %u", 2, name)
        backward = call("m", "aten.mul.Tensor", "self = %d, other = %u", 2, name)
        backward += call("y", "aten.silu_backward.default", "grad_output = %m, self = %g", 2, name)
        cases = {
            "forward": (forward, [g, u], lambda g=g, u=u: F.silu(g) * u),
            "backward": (backward, [d, u, g], lambda g=g, u=u, d=d: torch.ops.aten.silu_backward(d * u, g)),
        }
        for case, (body, operands, eager) in cases.items():
            place = folder / f"{case}-{name}"
            place.mkdir()
            function = KernelFunction(BIN / "fcdp-compile", swiglu_text(name).replace("BODY", body), place)
            for level in runnable_levels():

                def compiled() -> None:
                    # As the runtime does, and with memory that is allocated in each call, as PyTorch's is.
                    function.run(level, operands, torch.empty(SHAPE, dtype=dtype), 0, SHAPE[0] * SHAPE[1])

                theirs, ours = median_of(rounds, eager, compiled)
                print(f"  {case:8} {name:4} {level}: {theirs / ours:.2f} ({ours * 1e6:.0f} us)", flush=True)


def compare_exp(folder: Path) -> None:
    exp, sleef = make_exp(BIN / "fcdp-compile", folder), Sleef(folder)
    for level in runnable_levels():
        wrong = sleef.count_differences(exp, level)
        print(f"exp, {level}: {wrong} of 2^32 values differ from libtorch's Sleef_expf8_u10", flush=True)
        if wrong:
            raise SystemExit(1)


def measure_step(folder: Path, steps: int, rounds: int) -> None:
    import numpy as np
    from transformers import LlamaConfig, LlamaForCausalLM

    import fcdp

    config = LlamaConfig(
        vocab_size=4096, hidden_size=512, intermediate_size=1376, num_hidden_layers=4, num_attention_heads=8, use_cache=False
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config)
    ids = torch.randint(4096, (2, 256))
    fcdp.export(model, {"input_ids": ids, "labels": ids}, folder / "llama.pt2")
    np.save(folder / "ids.npy", np.stack([ids.numpy()] * steps))
    times: dict[str, list[float]] = {"off": [], "exact": []}
    losses: dict[str, list[float]] = {}
    for fuse in times:
        command = [BIN / "fcdp-compile", folder / "llama.pt2", f"--fuse={fuse}", "-o", folder / f"{fuse}.so"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for _ in range(rounds):
        for fuse, found in times.items():
            log = folder / "log.jsonl"
            log.unlink(missing_ok=True)
            inputs = [f"--input={name}={folder / 'ids.npy'}" for name in ("input_ids", "labels")]
            command = [BIN / "fcdp-run", folder / f"{fuse}.so", f"--weights={folder / 'llama.pt2'}", f"--steps={steps}", "--threads=1"]
            subprocess.run([*command, *inputs, f"--json={log}"], check=True, stdout=subprocess.DEVNULL)
            lines = [json.loads(line) for line in log.read_text().splitlines()]
            lines = [line for line in lines if "loss" in line]
            losses[fuse] = [line["loss"] for line in lines]
            # The first steps fill the pool.
            found += [line["seconds"] for line in lines[2:]]
    off, exact = (statistics.median(times[fuse]) for fuse in ("off", "exact"))
    same = "equal" if losses["off"] == losses["exact"] else "DIFFERENT"
    print(f"Llama, 4 layers of 512, batch of 2 x 256, f32: step off / exact {off / exact:.3f} ({exact * 1e3:.0f} ms), losses {same}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: .venv/bin/python benchmarks/kernels/run.py --parts kernels exhaustive",
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["kernels", "step"], help="parts to run (default: kernels step)")
    parser.add_argument("--rounds", type=int, default=100, help="rounds of kernels (default 100)")
    parser.add_argument("--steps", type=int, default=6, help="steps of a run (default 6)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "kernels" in args.parts:
            measure_kernels(folder, args.rounds)
        if "step" in args.parts:
            measure_step(folder, args.steps, rounds=3)
        if "exhaustive" in args.parts:
            compare_exp(folder)


if __name__ == "__main__":
    main()
