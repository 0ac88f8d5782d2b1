# SPDX-License-Identifier: Apache-2.0
"""Assigns training data to ranks, by the same rule as fcdp-run --input.

Every input is a list of M rows, one row per micro-batch. In step s, rank r reads for its micro-batch k (of K) the row at
position (s * K + k) * world + r of the data's order, the same one of every input; M is the smallest number of rows among the
inputs. An epoch has M positions. The order is that of the rows or, with shuffle=SEED, another permutation in each epoch.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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


_MASK = (1 << 64) - 1
_ROUNDS = 12


def _mix_bits(z: int) -> int:
    """The output function of SplitMix64."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


class _SplitMix:
    """SplitMix64 (Steele, Lea, Flood 2014)."""

    def __init__(self, seed: int):
        self._state = seed

    def next(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        return _mix_bits(self._state)


class Permutation:
    """A permutation of range(size), computed element by element, the same as that of fcdp-run.

    A balanced Feistel network permutes the least power of 4 that has `size` elements, and is applied again while its result
    is not below `size` (cycle walking; Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002).
    """

    def __init__(self, size: int, seed: int, series: int, epoch: int):
        self._size = size
        self._half_bits = max(1, ((size - 1).bit_length() + 1) // 2)
        of_series = _SplitMix(_SplitMix(seed).next() ^ series)
        of_epoch = _SplitMix(of_series.next() ^ epoch)
        self._keys = [of_epoch.next() for _ in range(_ROUNDS)]

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < self._size:
            raise IndexError(f"expected an index in [0, {self._size}), got {index}")
        value = self._permute_all(index)
        while value >= self._size:
            value = self._permute_all(value)
        return value

    def _permute_all(self, value: int) -> int:
        mask = (1 << self._half_bits) - 1
        left, right = value >> self._half_bits, value & mask
        for key in self._keys:
            left, right = right, left ^ (_mix_bits((right + key) & _MASK) & mask)
        return left << self._half_bits | right


@dataclass(frozen=True)
class DataOptions:
    """The order in which rows are read: fcdp-run --data."""

    shuffle: int | None = None

    @staticmethod
    def parse(text: str) -> "DataOptions":
        """Parses "KEY=VALUE,..." or nothing."""
        values: dict[str, int] = {}
        for item in text.split(",") if text else ():
            key, _, value = item.partition("=")
            if key != "shuffle":
                raise ValueError(f"data: expected shuffle=SEED, got '{key}'")
            if key in values:
                raise ValueError(f"data: {key}: given twice")
            if not (value.isascii() and value.isdigit()) or int(value) > _MASK:
                raise ValueError(f"data: shuffle: expected a seed, a whole number in [0, 2^64), got '{value}'")
            values[key] = int(value)
        return DataOptions(**values)


class DataOrder:
    """Gives each position in the data, which counts over all ranks and micro-batches of a job, a row."""

    def __init__(self, options: DataOptions, rows: int):
        self._options = options
        self._rows = rows

    def __getitem__(self, position: int) -> int:
        epoch, index = divmod(position, self._rows)
        if self._options.shuffle is None:
            return index
        return Permutation(self._rows, self._options.shuffle, 0, epoch)[index]


def position(step: int, micro_batch: int, rank: int, *, micro_batches: int, world: int) -> int:
    """Returns the position in the data at which `rank` reads in micro-batch `micro_batch` of `step`."""
    return (step * micro_batches + micro_batch) * world + rank


def row_index(step: int, micro_batch: int, rank: int, *, micro_batches: int, world: int, rows: int) -> int:
    """Returns the index of the row that `rank` reads in micro-batch `micro_batch` of `step`, unless rows are shuffled."""
    return position(step, micro_batch, rank, micro_batches=micro_batches, world=world) % rows


def batches(
    sources: Mapping[str, Rows], world: int = 1, micro_batches: int = 1, data: str = ""
) -> Callable[[int], list[dict[str, torch.Tensor]]]:
    """Returns a function from a step to its inputs for fcdp.reference.

    The inputs are in the order of fcdp.reference: all ranks of micro-batch 0, then of micro-batch 1, and so on. `data` is
    that of fcdp-run --data.
    """
    order = DataOrder(DataOptions.parse(data), min(len(source) for source in sources.values()))

    def step_inputs(step: int) -> list[dict[str, torch.Tensor]]:
        indices = [
            order[position(step, k, rank, micro_batches=micro_batches, world=world)]
            for k in range(micro_batches)
            for rank in range(world)
        ]
        return [{name: source[index] for name, source in sources.items()} for index in indices]

    return step_inputs


def batches_from_npy(
    files: Mapping[str, Path], world: int = 1, micro_batches: int = 1, data: str = ""
) -> Callable[[int], list[dict[str, torch.Tensor]]]:
    """Does the same as `batches` with one .npy file per input."""
    return batches({name: NpyRows(path) for name, path in files.items()}, world, micro_batches, data)
