#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicts what parts of the CUDA backend are worth in a step of Llama 2 7B, by fcdp-sim (docs/rationale/cuda.md)."""

import argparse
import json
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
import yaml

from presets import read_preset
from shapes import llama
from steps import Steps

SEQUENCE = 4096
SLOW_CALL = 23e-6
"""Seconds to issue a collective if NCCL starts a thread for it: the preset's 4, and 19 for the thread
(benchmarks/issue).
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=Path, default=Path("build/bin"), help="folder of fcdp-sim (default: build/bin)")
    parser.add_argument("--cache", type=Path, default=Path("build/simulator"), help="folder of exported steps (default: build/simulator)")  # fmt: skip
    parser.add_argument("--layers", type=int, help="number of layers (default: the model's 32)")
    args = parser.parse_args()
    shape = llama("llama2-7b", dtype=torch.bfloat16, loss=torch.bfloat16)
    if args.layers:
        shape = replace(shape, name=f"{shape.name}-{args.layers}layers", layers=args.layers)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        step, unfused = folder / "step.mlir", folder / "unfused.mlir"
        Steps(args.cache, args.tools).write(shape, 1, SEQUENCE, step)
        retarget = "--fcdp-retarget=target=cuda fuse-norms=false"
        subprocess.run([args.tools / "fcdp-opt", step, retarget, "-o", unfused], check=True)
        preset = read_preset("h100")
        preset["host"]["issue"]["transfer"] = SLOW_CALL
        (folder / "slow.yaml").write_text(yaml.safe_dump(preset))
        for text, file, cluster in (
            ("the step as it is", step, "h100"),
            ("RMS norms operator by operator", unfused, "h100"),
            ("communicators that do not block", step, str(folder / "slow.yaml")),
        ):
            seconds = [predict(args.tools, file, cluster, remat) for remat in ("none", "unit")]
            print(f"{text:<32}" + "".join(f"{1e3 * one:9.2f} ms" for one in seconds))


def predict(tools: Path, step: Path, cluster: str, remat: str) -> float:
    """Returns the seconds of a step on a node of 8 GPUs."""
    command = [tools / "fcdp-sim", step, f"--cluster={cluster}", "--nodes=1", "--target=cuda", "--strategy=zero3"]
    options = ["--master=f32", f"--remat={remat}", "--json"]
    done = subprocess.run([*command, *options], stdout=subprocess.PIPE, text=True, check=True)
    return float(json.loads(done.stdout)["steps"][0]["seconds"])


if __name__ == "__main__":
    main()
