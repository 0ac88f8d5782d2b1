#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the compiler's start-up time, and its time from archive to object for the example's step.

Times are medians. Nothing is asserted, because times depend on the machine.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "bin"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: .venv/bin/python benchmarks/compile/run.py --layers 6 12 24",
    )
    parser.add_argument("--layers", type=int, nargs="+", default=[6], help="layers of the GPT example (default 6)")
    parser.add_argument("--repeat", type=int, default=10, help="number of runs, whose median is printed (default 10)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        empty = folder / "empty.mlir"
        empty.write_text("module {}\n")
        start = median(args.repeat, BIN / "fcdp-opt", empty, "-o", folder / "out.mlir")
        print(f"fcdp-opt, an empty module: {start * 1000:.0f} ms")
        for layers in args.layers:
            measure(folder, layers, args.repeat)


def measure(folder: Path, layers: int, repeat: int) -> None:
    export = ROOT / "examples" / "gpt" / "export.py"
    subprocess.run(
        [sys.executable, export, "--out", folder, f"--layers={layers}"], check=True, stdout=subprocess.DEVNULL
    )
    archive, module, step = folder / "step.pt2", folder / "step.mlir", folder / "step.so"
    counts = ["--nodes=2", "--ranks-per-node=2", "--strategy=fcdp", "--optimizer=adamw,lr=1e-3"]
    imported = median(repeat, BIN / "fcdp-translate", "--import-pt2", archive, "-o", module)
    compiled = median(repeat, BIN / "fcdp-compile", archive, *counts, "-o", step)
    calls = module.read_text().count("aten.call")
    print(f"GPT of {layers} layers, {calls} operations: import {imported:.2f} s, import and compile {compiled:.2f} s")


def median(repeat: int, *command: str | Path) -> float:
    """Returns the median seconds of `repeat` runs."""
    seconds = []
    for _ in range(repeat):
        begin = time.perf_counter()
        subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


if __name__ == "__main__":
    main()
