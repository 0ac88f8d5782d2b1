# SPDX-License-Identifier: Apache-2.0
"""Puts the batches of a training loop into the order of a compiled step's inputs."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from fcdp.call import Call, kind_unless_dense
from fcdp.errors import StepError
from fcdp.suggestions import did_you_mean
from fcdp.torch_private import pytree

Batch = Mapping[str, Any] | Sequence[Any]


class Arguments:
    """The arguments of the call that was compiled: names, structure and shapes; the greatest of several."""

    def __init__(self, example: Call, micro_batches: int, may_be_smaller: bool = False):
        self._names = tuple(example.given)
        self._constants = {name: value for name, value in example.given.items() if name not in example.names}
        self._examples = {name: pytree.tree_flatten(example.given[name]) for name in example.names}
        self.micro_batches = micro_batches
        self._may_be_smaller = may_be_smaller

    def inputs(self, given: dict[str, Any]) -> list[torch.Tensor]:
        """Returns the inputs of one micro-batch.

        Raises StepError if they have another structure or shape than the example.
        """
        inputs = [leaf for name in self._examples for leaf in self._leaves(name, given[name])]
        examples = [(name, leaf) for name, (leaves, _) in self._examples.items() for leaf in leaves]
        for (name, example), leaf in zip(examples, inputs):
            if not self._fits(leaf, tuple(example.shape), micro_batches=1):
                raise self._other_shape(name, "the shape of the example", tuple(example.shape), leaf)
        return inputs

    def of_batch(self, batch: Batch) -> list[torch.Tensor]:
        """Returns the inputs of one micro-batch, given by position or by name."""
        is_named = isinstance(batch, Mapping)
        return self.inputs(self.by_name(() if is_named else batch, batch if is_named else {}))

    def split(self, given: dict[str, Any]) -> list[torch.Tensor]:
        """Returns the inputs of all micro-batches, of which tensors have the rows one after the other."""
        if self.micro_batches == 1:
            return self.inputs(given)
        parts = [self._parts(name, given[name]) for name in self._examples]
        return [leaf for k in range(self.micro_batches) for leaves in parts for leaf in leaves[k]]

    def by_name(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns all arguments. Raises StepError for missing and unknown ones, and for constants of another value."""
        if len(args) > len(self._names):
            raise _mismatch(f"expected at most {len(self._names)} arguments {self._names}, got {len(args)}")
        positional = dict(zip(self._names, args))
        twice = [name for name in positional if name in kwargs]
        if twice:
            raise _mismatch(f"got two values for '{twice[0]}'")
        given = {**self._constants, **positional, **kwargs}
        missing = [name for name in self._names if name not in given]
        unknown = [name for name in given if name not in self._names]
        if missing or unknown:
            wrong = [f"'{name}' is missing" for name in missing]
            wrong += [f"'{name}' is none of them{did_you_mean(name, missing)}" for name in unknown]
            raise _mismatch(f"expected the arguments {', '.join(self._names)}: {', '.join(wrong)}")
        for name, value in self._constants.items():
            if given[name] is not value and given[name] != value:
                raise _mismatch(f"'{name}': the step was compiled for {value!r}, got {given[name]!r}")
        return given

    def _leaves(self, name: str, value: Any) -> list[torch.Tensor]:
        leaves, structure = pytree.tree_flatten(value)
        expected = self._examples[name][1]
        if structure != expected:
            if expected.is_leaf():
                raise _no_tensor(name, value)
            raise _mismatch(f"'{name}': expected the structure of the example, {expected}, got {structure}")
        for leaf in leaves:
            if not isinstance(leaf, torch.Tensor):
                raise _no_tensor(name, leaf)
            kind = kind_unless_dense(leaf) or ("on the device meta" if leaf.device.type == "meta" else None)
            if kind is not None:
                raise _mismatch(f"'{name}': expected a dense tensor with values (torch.strided), got one that is {kind}")
        return leaves

    def _parts(self, name: str, value: Any) -> list[list[torch.Tensor]]:
        """Returns the tensors of an argument for each micro-batch."""
        k = self.micro_batches
        tensors = []
        for leaf, example in zip(self._leaves(name, value), self._examples[name][0]):
            if example.dim() == 0:
                tensors.append([leaf] * k)
                continue
            expected = (k * example.shape[0], *example.shape[1:])
            if not self._fits(leaf, expected, k):
                raise self._other_shape(name, f"the rows of {k} micro-batches", expected, leaf)
            tensors.append(list(leaf.chunk(k)))
        return [list(part) for part in zip(*tensors)]

    def _fits(self, leaf: torch.Tensor, expected: tuple[int, ...], micro_batches: int) -> bool:
        if not self._may_be_smaller:
            return tuple(leaf.shape) == expected
        is_within = leaf.dim() == len(expected) and all(size <= most for size, most in zip(leaf.shape, expected))
        return is_within and (leaf.dim() == 0 or (leaf.shape[0] > 0 and leaf.shape[0] % micro_batches == 0))

    def _other_shape(self, name: str, wanted: str, expected: tuple[int, ...], leaf: torch.Tensor) -> StepError:
        most = "at most " if self._may_be_smaller else ""
        text = f"'{name}': expected {wanted}, {most}{list(expected)}, got {list(leaf.shape)}"
        if leaf.dim() != len(expected):
            return _mismatch(text)
        return _mismatch(f"{text}: {self._advice(expected, tuple(leaf.shape))}")

    def _advice(self, expected: tuple[int, ...], found: tuple[int, ...]) -> str:
        """Says how batches of several shapes are trained on."""
        if self._may_be_smaller:
            return "add example inputs of that shape to more_inputs of fcdp.compile, or cut the batch"
        lengths = (
            "give fcdp.compile more_inputs=[...], example inputs up to the greatest shape, and pad={...}, the values that fill a "
            "batch up (docs/batches.md)"
        )
        if found[1:] == expected[1:]:
            return f"drop the last batch if it has fewer rows (DataLoader(drop_last=True)), or {lengths}"
        return f"pad all batches to one length, or {lengths}"


def describe_call(call: Call) -> str:
    """Describes the tensors of a call, and its constants, as far as these are the same in all processes."""
    texts = []
    for name, value in call.given.items():
        leaves = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        if leaves:
            types = [f"{str(leaf.dtype).removeprefix('torch.')} {list(leaf.shape)}" for leaf in leaves]
            texts.append(f"{name}: {', '.join(types)}")
        elif isinstance(value, (bool, int, float, str, type(None))):
            texts.append(f"{name}: {value!r}")
    return "; ".join(texts)


def _no_tensor(name: str, value: Any) -> StepError:
    kind = f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")
    advice = ""
    if kind == "numpy.ndarray":
        advice = f": convert it with torch.from_numpy({name})"
    elif isinstance(value, (list, tuple, int, float)):
        advice = f": convert it with torch.tensor({name})"
    return _mismatch(f"'{name}': expected a tensor, got {kind}{advice}")


def _mismatch(message: str) -> StepError:
    return StepError("input mismatch", message)
