# SPDX-License-Identifier: Apache-2.0
"""Assigns training data to ranks, by the same rule as fcdp-run --input.

Every input is a list of rows from one or several files, one row per micro-batch. In step s, rank r reads for its
micro-batch k (of K) the row at position (s * K + k) * world + r of the data's order, the same one of every input; a
file has the smallest number of rows among the inputs. docs/data.md describes the order.
"""

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

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

    Row i is tokens[i * n + shift : (i + 1) * n + shift] with n the elements of `shape`; there are (length - shift) //
    n.
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


class RowFiles:
    """The rows of several files, one after the other."""

    def __init__(self, files: Sequence[Rows]):
        self.files = list(files)

    def __len__(self) -> int:
        return sum(len(file) for file in self.files)

    def __getitem__(self, index: int) -> torch.Tensor:
        for file in self.files:
            if index < len(file):
                return file[index]
            index -= len(file)
        raise IndexError(f"expected an index below {len(self)}")


def _split_files(text: str) -> list[str]:
    """Splits "FILE,FILE". A comma separates files if it follows a type of tokens or ".npy"; others are part of a name.
    """
    files = [""]
    for character in text:
        if character == "," and re.search(r"(\.npy|:(u16|i32|i64)(\+[0-9]+)?)\Z", files[-1]):
            files.append("")
        else:
            files[-1] += character
    return files


def open_input(text: str, shape: Sequence[int]) -> Rows:
    """Opens "FILE.npy", "FILE:u16", "FILE:u16+1", or several with commas between them: the syntax of fcdp-run --input.
    """
    files = [_open_file(file, shape) for file in _split_files(text)]
    return files[0] if len(files) == 1 else RowFiles(files)


def _open_file(text: str, shape: Sequence[int]) -> Rows:
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

    A balanced Feistel network permutes the least power of 4 that has `size` elements, and is applied again while its
    result is not below `size` (cycle walking; Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002).
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


_MOST_ROWS_OF_PERIOD = 100000


def _parse_seed(value: str) -> int:
    if not re.fullmatch("[0-9]+", value) or int(value) > _MASK:
        raise ValueError(f"data: shuffle: expected a seed, a whole number in [0, 2^64), got '{value}'")
    return int(value)


_DECIMAL = r"[0-9]{1,9}(\.[0-9]{1,6})?"


def _parse_validation(value: str) -> int:
    if not re.fullmatch(_DECIMAL, value) or not 0 < Decimal(value) < 1:
        expected = "a number between 0 and 1 of at most 6 decimals, such as 0.01"
        raise ValueError(f"data: validation: expected {expected}, got '{value}'")
    return int(Decimal(value) * 10**6)


def _parse_split(value: str) -> str:
    if value not in ("train", "validation"):
        raise ValueError(f"data: split: expected train or validation, got '{value}'")
    return value


def _parse_weights(value: str) -> tuple[int, ...]:
    """Returns the weights as whole numbers in lowest terms."""
    texts = value.split(":")
    if not all(re.fullmatch(_DECIMAL, text) and Decimal(text) > 0 for text in texts):
        expected = "positive numbers of at most 9 digits and 6 decimals, separated by ':'"
        raise ValueError(f"data: weights: expected {expected}, got '{value}'")
    millionths = [int(Decimal(text) * 10**6) for text in texts]
    weights = tuple(weight // math.gcd(*millionths) for weight in millionths)
    if sum(weights) > _MOST_ROWS_OF_PERIOD:
        expected = f"a sum of at most {_MOST_ROWS_OF_PERIOD} as whole numbers in lowest terms, not {sum(weights)}"
        raise ValueError(f"data: weights: expected {expected}, got '{value}'")
    return weights


@dataclass(frozen=True)
class DataOptions:
    """Which rows are read, and in what order: fcdp-run --data."""

    shuffle: int | None = None
    weights: tuple[int, ...] = ()
    validation: int = 0  # millionths of each file's rows, at its end
    split: str = "train"

    @staticmethod
    def parse(text: str) -> "DataOptions":
        """Parses "KEY=VALUE,..." or nothing."""
        parsers: dict[str, Callable[[str], Any]] = {
            "shuffle": _parse_seed,
            "weights": _parse_weights,
            "validation": _parse_validation,
            "split": _parse_split,
        }
        values: dict[str, Any] = {}
        for item in text.split(",") if text else ():
            key, _, value = item.partition("=")
            if key not in parsers:
                expected = "shuffle=SEED, weights=W:W..., validation=FRACTION or split=train|validation"
                raise ValueError(f"data: expected {expected}, got '{key}'")
            if key in values:
                raise ValueError(f"data: {key}: given twice")
            values[key] = parsers[key](value)
        options = DataOptions(**values)
        if options.split == "validation" and not options.validation:
            raise ValueError("data: split=validation: expected validation=FRACTION, too")
        return options

    def rows_of(self, rows: int) -> range:
        """Returns the rows that are read of a file of `rows`."""
        if not self.validation:
            return range(rows)
        held_out = (rows * self.validation + 500000) // 10**6
        if not 1 <= held_out < rows:
            expected = "a fraction that holds out at least one row of each file and leaves one to train on"
            raise ValueError(f"data: validation: expected {expected}, got {held_out} of {rows} rows")
        return range(rows - held_out) if self.split == "train" else range(rows - held_out, rows)


class Mixture:
    """Spreads the rows of several files over positions, in periods of as many positions as the weights' sum.

    Each position goes to the file that has fallen shortest of its share, or the first of several such files ("smooth
    weighted round-robin", as in nginx).
    """

    def __init__(self, weights: Sequence[int]):
        self._weights = weights
        self._files: list[int] = []
        behind = [0] * len(weights)
        for _ in range(sum(weights)):
            behind = [amount + weight for amount, weight in zip(behind, weights)]
            self._files.append(behind.index(max(behind)))
            behind[self._files[-1]] -= sum(weights)

    def file_at(self, position: int) -> int:
        return self._files[position % len(self._files)]

    def count_before(self, file: int, position: int) -> int:
        """Returns how many of the positions before `position` are of `file`."""
        periods, rest = divmod(position, len(self._files))
        return periods * self._weights[file] + self._files[:rest].count(file)


class DataOrder:
    """Gives each position in the data, which counts over all ranks and micro-batches of a job, a file and a row of it.
    """

    def __init__(self, options: DataOptions, file_rows: Sequence[int]):
        if options.weights and len(options.weights) != len(file_rows):
            count = f"{len(file_rows)}, one for each file of an input"
            raise ValueError(f"data: weights: expected {count}, got {len(options.weights)}")
        self._shuffle = options.shuffle
        self._file_rows = [options.rows_of(rows) for rows in file_rows]
        self._mixture = Mixture(options.weights) if options.weights else None

    def __getitem__(self, position: int) -> tuple[int, int]:
        file = self._mixture.file_at(position) if self._mixture else 0
        count = self._mixture.count_before(file, position) if self._mixture else position
        rows = len(self._file_rows[file]) if self._mixture else sum(map(len, self._file_rows))
        epoch, row = divmod(count, rows)
        if self._shuffle is not None:
            row = Permutation(rows, self._shuffle, file, epoch)[row]
        # Without weights the row counts over all files.
        while row >= len(self._file_rows[file]):
            row -= len(self._file_rows[file])
            file += 1
        return file, self._file_rows[file][row]


def position(step: int, micro_batch: int, rank: int, *, micro_batches: int, world: int) -> int:
    """Returns the position in the data at which `rank` reads in micro-batch `micro_batch` of `step`."""
    return (step * micro_batches + micro_batch) * world + rank


def row_index(step: int, micro_batch: int, rank: int, *, micro_batches: int, world: int, rows: int) -> int:
    """Returns the index of the row that `rank` reads in micro-batch `micro_batch` of `step`, unless rows are shuffled.
    """
    return position(step, micro_batch, rank, micro_batches=micro_batches, world=world) % rows


def batches(
    sources: Mapping[str, Rows], world: int = 1, micro_batches: int = 1, data: str = ""
) -> Callable[[int], list[dict[str, torch.Tensor]]]:
    """Returns a function from a step to its inputs for fcdp.reference.

    The inputs are in the order of fcdp.reference: all ranks of micro-batch 0, then of micro-batch 1, and so on. `data`
    is that of fcdp-run --data.
    """
    files = {name: source.files if isinstance(source, RowFiles) else [source] for name, source in sources.items()}
    if len({len(rows) for rows in files.values()}) > 1:
        counts = {name: len(rows) for name, rows in files.items()}
        raise ValueError(f"expected as many files for each input, got {counts}")
    order = DataOrder(DataOptions.parse(data), [min(map(len, rows)) for rows in zip(*files.values())])

    def step_inputs(step: int) -> list[dict[str, torch.Tensor]]:
        places = [
            order[position(step, k, rank, micro_batches=micro_batches, world=world)]
            for k in range(micro_batches)
            for rank in range(world)
        ]
        return [{name: rows[file][row] for name, rows in files.items()} for file, row in places]

    return step_inputs


def batches_from_npy(
    files: Mapping[str, Path], world: int = 1, micro_batches: int = 1, data: str = ""
) -> Callable[[int], list[dict[str, torch.Tensor]]]:
    """Does the same as `batches` with one .npy file per input."""
    return batches({name: NpyRows(path) for name, path in files.items()}, world, micro_batches, data)
