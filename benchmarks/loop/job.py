#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of the job of run.py: a loop of PyTorch with a DataLoader. Rank 0 prints a line after each step.

usage: job.py CACHE ROWS STEPS SHAPE

With 0 STEPS, it only compiles the step into CACHE.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import fcdp

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "gpt"))

from model import GPT, GPTConfig  # noqa: E402


def make_model(shape: dict[str, int]) -> GPT:
    torch.manual_seed(0)
    return GPT(GPTConfig(shape["vocabulary"], shape["context"], shape["layers"], shape["heads"], shape["width"]))


def main(cache: str, rows: Path, steps: int, shape: dict[str, int]) -> None:
    data = TensorDataset(*(torch.from_numpy(np.load(rows / f"{name}.npy")).flatten(0, 1) for name in ("ids", "labels")))
    example = dict(zip(("ids", "labels"), data[: shape["batch"]]))
    with fcdp.compile(make_model(shape), example, cache=cache, check=False, threads=1) as step:
        if steps == 0:
            return
        sampler = DistributedSampler(data, step.num_ranks, step.rank, shuffle=False)
        loader = DataLoader(data, shape["batch"], sampler=sampler, drop_last=True)
        for _, (ids, labels) in zip(range(steps), loader):
            loss = step(ids=ids, labels=labels)
            if step.rank == 0:
                print(f"step {step.num_steps}: loss {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4]))
