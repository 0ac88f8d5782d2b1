# SPDX-License-Identifier: Apache-2.0
"""One rank of a job that trains a step of several shapes with fcdp.compile, on batches that are cut to their own
length.

usage: looped_shapes.py MODEL INPUTS K STEPS CACHE LENGTHS

Prints, on rank 0, the loss and the variant of each step. Rows are those that fcdp-run reads; LENGTHS are separated by
commas.
"""

import sys
from pathlib import Path

import torch

import fcdp

sys.path.insert(0, str(Path(__file__).resolve().parent / "models"))

from models import build  # noqa: E402

IGNORED = -100


def cut(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Without the columns at the end that are padding."""
    used = ((batch["ids"] != 0) | (batch["labels"] != IGNORED)).any(0).nonzero()
    return {name: tensor[:, : int(used.max()) + 1] for name, tensor in batch.items()}


def main() -> None:
    name, inputs, k, steps, cache, lengths = sys.argv[1:7]
    files = {key: Path(f"{inputs}.{key}.npy") for key in ("ids", "labels")}
    whole = fcdp.batches_from_npy(files)(0)[0]
    smallest, *others = [{key: tensor[:, :length] for key, tensor in whole.items()} for length in map(int, lengths.split(","))]
    arguments = {"optimizer": "adamw,lr=1e-3,eps=1e-3", "micro_batches": int(k), "cache": cache, "threads": 1}
    with fcdp.compile(build(name), smallest, more_inputs=others, pad={"labels": IGNORED}, **arguments) as step:
        batches = fcdp.batches_from_npy(files, step.num_ranks, int(k))
        for number in range(int(steps)):
            loss = step.run([cut(batch) for batch in batches(number)[step.rank :: step.num_ranks]])
            if step.rank == 0:
                print(loss.item(), int(step.figures["variant"]), flush=True)


main()
