# SPDX-License-Identifier: Apache-2.0
"""Pads batches of Transformers' models to the lengths of rows that a step is compiled for."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.nn.functional import pad as padded

from fcdp.errors import StepError

# Inputs that have the length of their row, and what they are padded with.
_PADDING = {
    "attention_mask": 0,
    "decoder_attention_mask": 0,
    "labels": -100,
    "shift_labels": -100,
    "token_type_ids": 0,
    "mm_token_type_ids": 0,
    "position_ids": 0,
    "decoder_position_ids": 0,
}
_TOKENS = ("input_ids", "decoder_input_ids")
# Inputs by whose elements a window of a long row is chosen, with the value that counts as nothing.
_CONTENT = (("labels", -100), ("attention_mask", 0))


class Lengths:
    """The lengths of rows that a step has, from the smallest to the greatest.

    sizes: numbers, or pairs of an encoder's and a decoder's length.
    pad: values by input, beside those that are known by name. None: the input has no length.
    token: pads tokens.
    main_input: the input whose dimension 1 is the length of the row.
    has_decoder: labels, and inputs that begin with "decoder_", have a length of their own.
    """

    def __init__(
        self,
        sizes: Sequence[int | tuple[int, int]],
        pad: Mapping[str, float | None],
        token: int,
        main_input: str,
        has_decoder: bool,
    ):
        self._sizes = [_checked_size(size, has_decoder) for size in sizes]
        for one, other in zip(self._sizes, self._sizes[1:]):
            if one == other or any(more < less for less, more in zip(one, other)):
                raise _misuse(f"expected numbers that grow, got {list(sizes)!r}")
        self._values: dict[str, float | None] = {**dict.fromkeys(_TOKENS, token), **_PADDING, **pad}
        self._main = (main_input, "labels") if has_decoder else (main_input,)
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._dims: dict[str, tuple[int, ...]] = {}

    def examples(self, batch: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Returns the first batch in each length, padded or cut to a window. All batches have its other sizes."""
        self._shapes = shapes_of(batch)
        self._dims = self._find_dims()
        return [self._resized(batch, size) for size in self._sizes]

    @property
    def pad(self) -> dict[str, float]:
        """The values of the inputs that have a length. Known when there are examples."""
        return {name: self._values[name] for name in self._dims}

    def fitted(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a batch in the smallest length that it fits into. Raises StepError if there is none."""
        return self._resized(batch, self.fit(shapes_of(batch)))

    def longest(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a batch in the greatest length, in which evaluations are. Raises StepError if it is too long."""
        self._length_that_fits(shapes_of(batch))
        return self._resized(batch, self._sizes[-1])

    def fit(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
        """Returns the smallest length that a batch of such tensors fits into. Raises StepError if there is none."""
        self._check_rest(shapes)
        return self._length_that_fits(shapes)

    def _group(self, name: str) -> int:
        """Returns 1 for an input of a decoder, whose length is its own."""
        return int(len(self._main) == 2 and (name == "labels" or name.startswith("decoder_")))

    def _find_dims(self) -> dict[str, tuple[int, ...]]:
        for name in self._main:
            if len(self._shapes.get(name, ())) < 2:
                known = ", ".join(f"'{other}'" for other in self._shapes)
                raise _misuse(f"expected an input '{name}' of rows and their elements, got the inputs {known}")
        lengths = [self._shapes[name][1] for name in self._main]
        found = {}
        for name, shape in self._shapes.items():
            length = lengths[self._group(name)]
            # A mask of pairs has the length twice, after a dimension of heads.
            dims = (1,) if shape[1:2] == (length,) else tuple(i for i in range(2, len(shape)) if shape[i] == length)
            if not dims:
                continue
            if name not in self._values:
                raise _misuse(
                    f"'{name}' {list(shape)} has the length of its row, {length}: give pad={{'{name}': VALUE}}, with which it "
                    "is padded, or None if that size is always the same"
                )
            if self._values[name] is not None:
                found[name] = dims
        return found

    def _length_that_fits(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
        lengths: list[tuple[str, int] | None] = [None, None]
        for name, dims in self._dims.items():
            shape, group = shapes.get(name, ()), self._group(name)
            for dim in dims:
                if len(shape) != len(self._shapes[name]):
                    continue  # The step says what it lacks.
                first, length = lengths[group] or (name, shape[dim])
                if shape[dim] != length:
                    raise _mismatch(f"'{first}' and '{name}' have rows of {length} and {shape[dim]} elements")
                lengths[group] = first, length
        found = [given for given in lengths if given is not None]
        fit = next((size for size in self._sizes if all(n <= size[self._group(name)] for name, n in found)), None)
        if fit is None:
            name, length = next((name, n) for name, n in found if n > self._sizes[-1][self._group(name)])
            raise _mismatch(
                f"'{name}' has rows of {length} elements, and the greatest of lengths is {self._sizes[-1][self._group(name)]}: "
                "add a greater one, or cut rows (truncation=True, max_length=...)"
            )
        return fit

    def _check_rest(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Sizes that are no lengths are equal in all batches. A step would pad smaller ones, whatever they mean."""
        for name, expected in self._shapes.items():
            found, dims = shapes.get(name), self._dims.get(name, ())
            if found is None or _without(found, dims) == _without(expected, dims):
                continue
            advice = "set dataloader_drop_last=True" if found[:1] != expected[:1] else "the length of a row is its dimension 1"
            wanted = _shown(expected, dims)
            raise _mismatch(f"'{name}': expected the shape of the first batch, {wanted}, got {list(found)}: {advice}")

    def _resized(self, batch: Mapping[str, Any], size: tuple[int, ...]) -> dict[str, Any]:
        resized = dict(batch)
        start = self._start(batch, size[0])
        for name, dims in self._dims.items():
            if name not in batch:
                continue
            target = size[self._group(name)]
            for dim in dims:
                value = resized[name]
                more = target - value.shape[dim]
                if more < 0:
                    resized[name] = value.narrow(dim, 0 if self._group(name) else start, target)
                elif more > 0:
                    resized[name] = padded(value, [0, 0] * (value.dim() - 1 - dim) + [0, more], value=self._values[name])
        return resized

    def _start(self, batch: Mapping[str, Any], length: int) -> int:
        """Returns where the window of a row begins that has the most content: a loss of nothing would be NaN."""
        for name, nothing in _CONTENT:
            if self._dims.get(name) == (1,) and not self._group(name) and batch[name].shape[1] > length:
                content = (batch[name] != nothing).sum(0, dtype=torch.int64).reshape(batch[name].shape[1], -1).sum(1)
                return int(content.unfold(0, length, 1).sum(1).argmax())
        return 0


def shapes_of(batch: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the tensors of a batch."""
    return {name: tuple(value.shape) for name, value in batch.items() if isinstance(value, torch.Tensor)}


def _without(shape: Sequence[int], dims: Sequence[int]) -> list[int]:
    return [size for i, size in enumerate(shape) if i not in dims]


def _shown(shape: Sequence[int], dims: Sequence[int]) -> str:
    return f"[{', '.join('length' if i in dims else str(size) for i, size in enumerate(shape))}]"


def _checked_size(size: Any, has_decoder: bool) -> tuple[int, ...]:
    sizes = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    if len(sizes) != 1 + has_decoder or not all(isinstance(one, int) and one > 0 for one in sizes):
        wanted = "pairs of an encoder's and a decoder's length" if has_decoder else "numbers of elements of a row"
        raise _misuse(f"expected {wanted}, got {size!r}")
    return sizes


def _misuse(text: str) -> StepError:
    return StepError("misuse", f"lengths: {text}")


def _mismatch(text: str) -> StepError:
    return StepError("input mismatch", text)
