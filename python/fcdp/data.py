# SPDX-License-Identifier: Apache-2.0
"""Assigns training data to ranks, by the same rule as fcdp-run --input.

Every input is a list of M rows, one row per micro-batch. In step s, rank r reads for its micro-batch k (of K) the row
((s * K + k) * world + r) mod M, the same one of every input; M is the smallest number of rows among the inputs.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import torch

Path = str | os.PathLike[str]
_TOKEN_TYPES = {"u16": "<u2", "i32": "<i4", "i64": "<i8"}


class Rows(Protocol):
    """A list of equally shaped tensors."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> torch.Tensor: ...


class NpyRows:
    """Reads the rows of an .npy file of shape [M, ...batch shape]."""

    def __init__(self, path: Path):
        self._array = np.load(path, mmap_mode="r")
        if self._array.ndim == 0 or len(self._array) == 0:
            raise ValueError(f"{path}: expected an array of shape [M, ...], got {list(self._array.shape)}")

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(np.array(self._array[index]))


class TokenWindows:
    """Reads consecutive windows of a raw little-endian token file as int64 tensors of the batch's shape.

    Row i is tokens[i * n + shift : (i + 1) * n + shift] with n the elements of `shape`; there are (length - shift) // n.
    """

    def __init__(self, path: Path, kind: str, shape: Sequence[int], shift: int = 0):
        if kind not in _TOKEN_TYPES:
            raise ValueError(f"{path}: expected a token type among {sorted(_TOKEN_TYPES)}, got '{kind}'")
        self._tokens = np.memmap(path, dtype=_TOKEN_TYPES[kind], mode="r")
        self._shape = tuple(shape)
        self._size = int(np.prod(self._shape))
        self._shift = shift
        if len(self) < 1:
            raise ValueError(
                f"{path}: expected at least {self._size + shift} tokens for one batch, got {len(self._tokens)}"
            )

    def __len__(self) -> int:
        return max(0, len(self._tokens) - self._shift) // self._size

    def __getitem__(self, index: int) -> torch.Tensor:
        start = index * self._size + self._shift
        window = self._tokens[start : start + self._size].astype(np.int64)
        return torch.from_numpy(window).reshape(self._shape)


def open_input(text: str, shape: Sequence[int]) -> Rows:
    """Opens the rows of "FILE.npy", "FILE:u16" or "FILE:u16+1", the syntax of fcdp-run --input."""
    file, colon, kind = text.rpartition(":")
    if not colon:
        return NpyRows(text)
    kind, _, shift = kind.partition("+")
    return TokenWindows(file, kind, shape, int(shift or 0))


def row_index(step: int, micro_batch: int, rank: int, *, micro_batches: int, world: int, rows: int) -> int:
    """Returns the index of the row that `rank` reads in micro-batch `micro_batch` of `step`."""
    return ((step * micro_batches + micro_batch) * world + rank) % rows


def batches(
    sources: Mapping[str, Rows], world: int = 1, micro_batches: int = 1
) -> Callable[[int], list[dict[str, torch.Tensor]]]:
    """Returns a function from a step to its inputs for fcdp.reference.

    The inputs are in the order of fcdp.reference: all ranks of micro-batch 0, then of micro-batch 1, and so on.
    """
    rows = min(len(source) for source in sources.values())

    def step_inputs(step: int) -> list[dict[str, torch.Tensor]]:
        indices = [
            row_index(step, k, rank, micro_batches=micro_batches, world=world, rows=rows)
            for k in range(micro_batches)
            for rank in range(world)
        ]
        return [{name: source[index] for name, source in sources.items()} for index in indices]

    return step_inputs


def batches_from_npy(
    files: Mapping[str, Path], world: int = 1, micro_batches: int = 1
) -> Callable[[int], list[dict[str, torch.Tensor]]]:
    """Does the same as `batches` with one .npy file per input."""
    return batches({name: NpyRows(path) for name, path in files.items()}, world, micro_batches)
