#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the padding of layouts and the time to plan them, for one decoder layer on 8 to 1024 ranks.

Padding is that of `fcdp-opt --fcdp-bucket`, relative to the stored bytes. Times are those of the whole pass, one run
each.
"""

import argparse
import json
import re
import subprocess
from math import prod
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def llama(hidden: int, key_value: int, intermediate: int) -> list[tuple[int, ...]]:
    """Returns shapes from table 3 of The Llama 3 Herd of Models, arXiv 2407.21783."""
    attention = [(hidden, hidden), (key_value, hidden), (key_value, hidden), (hidden, hidden)]
    return [*attention, (intermediate, hidden), (intermediate, hidden), (hidden, intermediate), (hidden,), (hidden,)]


def gpt_oss(experts: int) -> list[tuple[int, ...]]:
    """Returns shapes as Transformers has them: experts are stacks of matrices."""
    attention = [(64,), (4096, 2880), (4096,), (512, 2880), (512,), (512, 2880), (512,), (2880, 4096), (2880,)]
    router = [(experts, 2880), (experts,)]
    mlp = [(experts, 2880, 5760), (experts, 5760), (experts, 2880, 2880), (experts, 2880)]
    return [*attention, *router, *mlp, (2880,), (2880,)]


LAYERS = {
    "Llama 3 8B": llama(4096, 1024, 14336),
    "Llama 3 405B": llama(16384, 1024, 53248),
    "GPT-OSS 20B": gpt_oss(32),
    "GPT-OSS 120B": gpt_oss(128),
}
RANKS = [8, 16, 32, 64, 128, 256, 512, 1024]


def rows(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns a stack of matrices as one matrix, so that a ragged layout's rows are those of the matrices."""
    return (prod(shape[:-1]), shape[-1]) if len(shape) > 2 else shape


def module(shapes: list[tuple[int, ...]], layers: int) -> str:
    declared = [
        f'fcdp.parameter @p{layer}.{index} : tensor<{"x".join(map(str, shape))}xbf16> unit "{layer}" names ["p{layer}.{index}"]'
        for layer in range(layers)
        for index, shape in enumerate(shapes)
    ]
    return "\n".join(
        ["module attributes {fcdp.phase = #fcdp.phase<imported>} {", *declared, "func.func @step() { return }", "}"]
    )


def plan(text: str, ranks: int, layout: str, merged: bool) -> tuple[int, float]:
    """Returns the elements of all buckets, and the seconds of the pass."""
    options = f"layout={layout}" + (" bucket-bytes=9000000000000000000" if merged else "")
    done = subprocess.run(
        [ROOT / "build/bin/fcdp-opt", f"--fcdp-shard=ranks-per-node={ranks}", f"--fcdp-bucket={options}", "--mlir-timing",
         "--mlir-output-format=json"],
        input=text, capture_output=True, text=True, check=True,
    )
    elements = sum(map(int, re.findall(r"fcdp\.bucket .*? elements (\d+)", done.stdout)))
    return elements, next(entry["wall"]["duration"] for entry in json.loads(done.stderr) if entry["name"] == "BucketPass")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: benchmarks/layout/run.py --layouts 'ragged<16>' --layers 32",
    )
    parser.add_argument("--layouts", nargs="+", default=["flat", "ragged<1>", "ragged<16>", "owned"])
    parser.add_argument("--layers", type=int, default=1, help="number of layers that are merged into one bucket (default 1)")
    args = parser.parse_args()
    print(f"{'layer':<14} {'layout':<11}" + "".join(f"{ranks:>8}" for ranks in RANKS) + "   longest")
    for name, shapes in LAYERS.items():
        used = args.layers * sum(map(prod, shapes))
        for layout in args.layouts:
            shown = [rows(shape) for shape in shapes] if layout.startswith("ragged") else shapes
            text = module(shown, args.layers)
            plans = [plan(text, ranks, layout, args.layers > 1) for ranks in RANKS]
            padding = "".join(f"{1 - used / elements:>8.2%}" for elements, _ in plans)
            print(f"{name:<14} {layout:<11}{padding} {max(seconds for _, seconds in plans):>7.3f} s", flush=True)


if __name__ == "__main__":
    main()
