# SPDX-License-Identifier: Apache-2.0
"""Exports test models: NAME.pt2, NAME.inputs/INPUT.npy (24 rows of different data) and NAME.json."""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

import fcdp
from models import MODELS, build

ROWS = 24


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python make_models.py gpt hf_llama --out out")
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"all, or some of: {' '.join(MODELS)}")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and data (default 0)")
    args = parser.parse_args()
    names = list(MODELS) if args.names == ["all"] else args.names
    unknown = sorted(set(names) - set(MODELS))
    if unknown:
        parser.error(f"expected names among {', '.join(MODELS)}, got {', '.join(unknown)}")
    args.out.mkdir(parents=True, exist_ok=True)
    for name in names:
        print(make(name, args.out, args.seed), flush=True)


def make(name: str, out: Path, seed: int) -> str:
    """Writes one model's files; returns a line about them."""
    arrays = input_arrays(name, seed)
    folder = out / f"{name}.inputs"
    folder.mkdir(exist_ok=True)
    for key, array in arrays.items():
        np.save(folder / f"{key}.npy", array)
    example = {key: torch.from_numpy(np.array(array[0])) for key, array in arrays.items()}
    exported = fcdp.export(build(name, seed), example, out / f"{name}.pt2")
    inputs = {
        key: {"file": f"{name}.inputs/{key}.npy", "shape": list(array.shape[1:]), "dtype": str(array.dtype)}
        for key, array in arrays.items()
    }
    metadata = {"name": name, "seed": seed, "rows": ROWS, "inputs": inputs}
    (out / f"{name}.json").write_text(json.dumps(metadata, indent=1) + "\n")
    return (
        f"{name}: {exported.nodes} operations, {exported.labelled} labelled, {len(exported.units)} units, "
        f"{len(exported.ties)} ties, {len(exported.unreached)} unreached, "
        f"gradients within {exported.gradient_error:.1e} of eager's"
    )


def input_arrays(name: str, seed: int) -> dict[str, np.ndarray]:
    """The rows of each input: [ROWS, ...batch shape]."""
    rng = np.random.default_rng(seed)
    rows = [MODELS[name].inputs(rng) for _ in range(ROWS)]
    return {key: np.stack([row[key] for row in rows]) for key in rows[0]}


if __name__ == "__main__":
    main()
