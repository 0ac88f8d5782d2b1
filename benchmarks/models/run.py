#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains small models of many families of Transformers, and compares their losses with plain PyTorch's.

Each model has about 20,000 parameters. Its step is exported, compiled for two nodes of one rank with the strategy fcdp,
and run for three steps with AdamW. Prints a line for each family: the greatest relative difference of a loss, or the
stage at which it failed and the message. Ends with an error if a family failed or differs by more than 1e-5, or 1e-3 in
bfloat16.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch

import fcdp
from families import FAMILIES, Family

BIN = Path(__file__).resolve().parents[2] / "build" / "bin"
RANKS, STEPS = 2, 3
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 1e-3}
# With PyTorch's eps, a gradient that is rounding noise (that of a bias of attention's keys) makes an update of full
# length.
OPTIMIZER = "adamw,lr=1e-3,eps=1e-3"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", help=f"default: all of {' '.join(FAMILIES)}")
    parser.add_argument("--bf16", action="store_true", help="train models in bfloat16")
    args = parser.parse_args()
    if unknown := set(args.families) - FAMILIES.keys():
        parser.error(f"expected families among {' '.join(FAMILIES)}; got {' '.join(sorted(unknown))}")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    failed, dtype = 0, torch.bfloat16 if args.bf16 else torch.float32
    for name in args.families or FAMILIES:
        try:
            difference = compare(name, FAMILIES[name], dtype)
        except (fcdp.ExportError, subprocess.SubprocessError) as error:
            print(f"{name:<16} {message(error)}", flush=True)
            failed += 1
            continue
        failed += difference > TOLERANCES[dtype]
        print(f"{name:<16} {difference:.1e}", flush=True)
    print(f"{len(args.families or FAMILIES) - failed} families have PyTorch's losses, {failed} do not")
    return 1 if failed else 0


def compare(name: str, family: Family, dtype: torch.dtype) -> float:
    """Returns the greatest relative difference of a loss from PyTorch's."""
    model = family.build(name).to(dtype)
    generator = torch.Generator().manual_seed(1)
    rows = [family.inputs(generator) for _ in range(RANKS * STEPS)]
    with tempfile.TemporaryDirectory() as folder:
        losses = train(model, rows, Path(folder))
    batches = [rows[step * RANKS : (step + 1) * RANKS] for step in range(STEPS)]
    expected = fcdp.reference(model, batches, OPTIMIZER, STEPS, world=RANKS)
    return max(abs(loss - other) / abs(other) for loss, other in zip(losses, expected, strict=True))


def train(model: torch.nn.Module, rows: list[dict[str, torch.Tensor]], folder: Path) -> list[float]:
    archive, step, log = folder / "step.pt2", folder / "step.so", folder / "log.jsonl"
    fcdp.export(model, rows[0], archive)
    run("fcdp-compile", archive, f"--nodes={RANKS}", "--strategy=fcdp", f"--optimizer={OPTIMIZER}", "-o", step)
    for name in rows[0]:
        np.save(folder / f"{name}.npy", np.stack([row[name].numpy() for row in rows]))
    inputs = [f"--input={name}={folder / name}.npy" for name in rows[0]]
    run("fcdp-run", step, f"--weights={archive}", f"--steps={STEPS}", "--threads=1", f"--json={log}", *inputs)
    return [json.loads(line)["loss"] for line in log.read_text().splitlines()]


def run(tool: str, *arguments: object) -> None:
    subprocess.run([BIN / tool, *map(str, arguments)], check=True, capture_output=True, text=True, timeout=300)


def message(error: Exception) -> str:
    return error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else str(error)


if __name__ == "__main__":
    sys.exit(main())
