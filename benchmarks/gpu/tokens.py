# SPDX-License-Identifier: Apache-2.0
"""Makes random tokens in a raw file for fcdp-run (FILE:u16, labels shifted by one), and reads them for PyTorch."""

import array
import os
import random
from pathlib import Path

import torch
from model import Shape


def write(path: Path, shape: Shape, batches: int, seed: int) -> None:
    """Writes enough tokens for all batches, because fcdp-run would start over at the end of the file."""
    draw = random.Random(seed)
    tokens = array.array("H", (draw.randrange(shape.vocabulary) for _ in range(batches * shape.tokens + 1)))
    part = path.with_suffix(f".{os.getpid()}")
    part.write_bytes(tokens.tobytes())
    # Programs that run side by side may write the same file.
    part.rename(path)


def batch(path: Path, shape: Shape, index: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns ids and labels of batch `index`, as int64 [batch, time]."""
    tokens = array.array("H")
    with path.open("rb") as file:
        file.seek(2 * index * shape.tokens)
        tokens.fromfile(file, shape.tokens + 1)
    values = torch.tensor(tokens.tolist())
    return values[:-1].view(shape.batch, shape.time), values[1:].reshape(shape.batch, shape.time)
