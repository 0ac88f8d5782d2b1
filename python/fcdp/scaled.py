# SPDX-License-Identifier: Apache-2.0
"""Checks the export of a model without weights, unit by unit, on random values.

Each unit is exported by itself with random weights, and with arguments of the shapes with which the model calls it. It
is compared with eager PyTorch, and must have the same operators as in the whole archive. The rest of the model is
compared with stubs in place of its units. Units that are alike are compared once.
"""

import contextlib
import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from fcdp.attributes import unchanged_attributes
from fcdp.call import Call, make_call
from fcdp.eager import StepResult
from fcdp.empty import replaced
from fcdp.errors import ExportError
from fcdp.logs import without_logs
from fcdp.operator_counts import OperatorCounts, find_difference, is_within
from fcdp.stand_ins import Alone, stubbed
from fcdp.torch_private import is_fake, pytree
from fcdp.unit_calls import Like, UnitCall, random_weight, record_calls

MOST_BYTES = 4 << 30
"""The memory that the check of one unit may take, by an estimate: four times its parameters, two times all its results.
"""
MOST_OPERATIONS = 4e12
"""The multiplications that the check of one unit may take, by an estimate."""
_SEEDS = (1, 2)
_ELEMENTS = 128

Trace = Callable[[nn.Module, Call], tuple[ExportedProgram, StepResult, dict[str, str]]]
Compare = Callable[[ExportedProgram, Call, StepResult, dict[str, str]], float]


@dataclass
class UnitChecks:
    """The units that were compared with eager PyTorch, and why others were not. "" is the model around its units."""

    checked: list[str] = field(default_factory=list)
    unchecked: dict[str, str] = field(default_factory=dict)
    error: float = 0.0


class _NotChecked(Exception):
    """Says why a unit cannot be compared."""


def check_units(
    model: nn.Module, call: Call, joint: ExportedProgram, units: Iterable[str], trace: Trace, compare: Compare
) -> UnitChecks:
    """Compares `joint`, the export of a model of fcdp.empty_weights(), with eager PyTorch.

    `trace` exports a module that has values and runs it in eager PyTorch, and `compare` raises ExportError if both
    differ.
    """
    return _Checker(model, call, joint, list(units), trace, compare).run()


def _smaller_calls(call: Call) -> Iterator[Call]:
    """Yields calls with two rows of each input, and 128 of their elements, if all inputs have more."""
    shapes = [leaf.shape for leaf in call.leaves()]

    def cut(*slices: slice) -> Call:
        given = pytree.tree_map_only(torch.Tensor, lambda leaf: leaf[slices], call.given)
        return dataclasses.replace(call, given=given)

    if all(len(shape) > 1 and shape[:2] == shapes[0][:2] and shape[1] > _ELEMENTS for shape in shapes):
        yield cut(slice(2), slice(_ELEMENTS))
    if all(len(shape) > 0 and shape[0] == shapes[0][0] and shape[0] > 2 for shape in shapes):
        yield cut(slice(2))


@dataclass(frozen=True)
class _Variant:
    """A call of the model, how it calls its units then, and its size in comparison with that of the whole step."""

    call: Call
    units: dict[str, list[UnitCall]]
    size: float


class _Checker:
    def __init__(
        self, model: nn.Module, call: Call, joint: ExportedProgram, units: list[str], trace: Trace, compare: Compare
    ):
        self._model, self._call, self._trace, self._compare = model, call, trace, compare
        self._whole = OperatorCounts(joint)
        # The operators around units that read masks.
        self._reading: Counter[str] = Counter()
        inner = [unit for unit in units if unit]
        # A unit within another one is a part of it.
        self._units = [unit for unit in inner if not any(unit.startswith(f"{other}.") for other in inner)]
        self._found = UnitChecks()

    def run(self) -> UnitChecks:
        try:
            variant = self._own
        except Exception as error:
            return UnitChecks(unchecked={unit: _said(error) for unit in ["", *self._units]})
        first: dict[Any, str] = {}
        for unit, calls in variant.units.items():
            key = (_kind(self._model.get_submodule(unit)), repr(calls), frozenset(self._whole.within(unit).items()))
            if key in first:
                self._found_as(first[key], unit)
            else:
                first[key] = unit
                self._attempt(unit, lambda seed, unit=unit: self._check_unit(unit, seed))
        self._attempt("", lambda seed: self._check_rest(seed, reads_masks=True))
        if (why := self._found.unchecked.pop("", None)) is not None:
            # The whole step may know the masks of attention.
            self._attempt("", lambda seed: self._check_rest(seed, reads_masks=False))
            if "" in self._found.unchecked:
                self._found.unchecked[""] = why
        # The model uses the parameters of others without calling them.
        for unit in self._units:
            if unit not in variant.units:
                self._found_as("", unit)
        return self._found

    def _variants(self) -> Iterator[_Variant]:
        """Yields the call itself, and then smaller ones, of which most models take any number."""
        yield self._own
        yield from self._smaller

    @functools.cached_property
    def _own(self) -> _Variant:
        return self._variant(self._call)

    @functools.cached_property
    def _smaller(self) -> list[_Variant]:
        found = []
        for smaller in _smaller_calls(self._call):
            # A model may take no other shapes. PyTorch logs its errors.
            with contextlib.suppress(Exception), without_logs():
                found.append(self._variant(smaller))
        return found

    def _variant(self, call: Call) -> _Variant:
        # Values that a model keeps from a pass of tensors without values must not reach the next pass.
        with unchanged_attributes(self._model, call.loss_fn):
            units = record_calls(self._model, call, self._units)
        size = sum(leaf.numel() for leaf in call.leaves()) / max(sum(leaf.numel() for leaf in self._call.leaves()), 1)
        return _Variant(call, {unit: calls for unit, calls in units.items() if calls}, size)

    def _affordable(self, parameters: nn.Module, result_bytes: int) -> _Variant:
        """Returns the largest call whose check takes as little memory and time as a check may. Raises _NotChecked."""
        for variant in self._variants():
            size = 4 * sum(parameter.nbytes for parameter in parameters.parameters()) + 2 * int(result_bytes * variant.size)
            operations = 18 * self._rows(variant) * sum(p.numel() for p in parameters.parameters() if p.dim() > 1)
            if size <= MOST_BYTES and operations <= MOST_OPERATIONS:
                return variant
        raise _NotChecked(
            f"it would take {size >> 20} MiB and {operations:.1e} multiplications, and a check takes at most "
            f"{MOST_BYTES >> 20} MiB and {MOST_OPERATIONS:.1e}"
        )

    def _rows(self, variant: _Variant) -> int:
        """Returns the most rows of a matrix that any unit is called with."""
        calls = itertools.chain.from_iterable(variant.units.values())
        likes = [leaf for call in calls for leaf in pytree.tree_leaves((call.args, call.kwargs)) if isinstance(leaf, Like)]
        return max((torch.Size(like.shape[:-1]).numel() for like in likes if like.dtype.is_floating_point), default=1)

    def _found_as(self, other: str, unit: str) -> None:
        if other in self._found.unchecked:
            self._found.unchecked[unit] = self._found.unchecked[other]
        else:
            self._found.checked.append(unit)

    def _attempt(self, unit: str, check: Callable[[int], float]) -> None:
        """Runs a check, and again on other values if it fails: values near a choice, as of a router, may round to
        another.
        """
        for seed in _SEEDS:
            try:
                self._found.error = max(self._found.error, check(seed))
                self._found.checked.append(unit)
                return
            except _NotChecked as error:
                self._found.unchecked[unit] = str(error)
                return
            except ExportError as error:
                last = error
        where = f"unit '{unit}'" if unit else "the model around its units"
        raise ExportError(f"{where}, with random values in place of weights: {last}") from last

    def _check_unit(self, unit: str, seed: int) -> float:
        module = self._model.get_submodule(unit)
        calls = self._affordable(module, self._whole.bytes_within(unit)).units[unit]
        generator = torch.Generator().manual_seed(seed)
        with replaced(module, lambda tensor: random_weight(tensor, generator)):
            _check_values(module)
            alone = Alone(module, calls[0], generator)
            call = make_call(alone, alone.example(), None)
            program, eager, ties = self._traced(alone, call)
            found = OperatorCounts(program).within("unit")
            self._check_same(self._whole.within(unit), Counter({name: count * len(calls) for name, count in found.items()}))
            return self._compare(program, call, eager, ties)

    def _check_rest(self, seed: int, reads_masks: bool) -> float:
        """Compares the model with stubs in place of its units."""
        units = list(self._own.units)
        generator = torch.Generator().manual_seed(seed)
        with contextlib.ExitStack() as stack:
            variant = self._affordable(self._rest(units), self._whole.bytes_outside(units))
            for unit, calls in variant.units.items():
                stack.enter_context(stubbed(self._model.get_submodule(unit), calls, generator, reads_masks))
            stack.enter_context(replaced(self._model, lambda tensor: random_weight(tensor, generator)))
            _check_values(self._model)
            program, eager, ties = self._traced(self._model, variant.call)
            whole, found = self._whole.outside(units), OperatorCounts(program).outside(units)
            if reads_masks:
                self._reading = found
            # The whole step may compute the documents of a mask, and not the mask.
            if not found <= whole <= self._reading:
                self._check_same(whole, found)
            return self._compare(program, variant.call, eager, ties)

    def _rest(self, units: list[str]) -> nn.ParameterList:
        """Returns the parameters outside of `units`."""
        named = self._model.named_parameters()
        return nn.ParameterList([p for name, p in named if not any(is_within(name, unit) for unit in units)])

    def _check_same(self, whole: Counter[str], alone: Counter[str]) -> None:
        if difference := find_difference(whole, alone):
            raise _NotChecked(f"the whole step has other operators there ({difference})")

    def _traced(self, model: nn.Module, call: Call) -> tuple[ExportedProgram, StepResult, dict[str, str]]:
        try:
            program, eager, ties = self._trace(model, call)
        except Exception as error:
            raise _NotChecked(f"it cannot be exported by itself: {_said(error)}") from error
        if not all(gradient.isfinite().all() for gradient in eager.gradients.values() if gradient is not None):
            raise _NotChecked("its gradients on random values are not finite")
        return program, eager, ties


def _kind(module: nn.Module) -> Any:
    """Returns what modules that compute the same have in common. Numbers that count layers are not part of it."""

    def of(part: nn.Module) -> Any:
        kinds = (float, bool, int, str) if type(part).__module__.startswith("torch.nn") else (float, bool)
        plain = {name: value for name, value in vars(part).items() if isinstance(value, kinds)}
        hooks = [len(value) for name, value in vars(part).items() if name.endswith("hooks") and isinstance(value, dict)]
        shapes = [(name, tuple(p.shape), p.dtype, p.requires_grad) for name, p in part.named_parameters(recurse=False)]
        return type(part), repr(sorted(plain.items())), tuple(hooks), tuple(shapes), "forward" in vars(part)

    return tuple((name, *of(part)) for name, part in module.named_modules())


def _check_values(module: nn.Module) -> None:
    empty = next((name for name, buffer in module.named_buffers() if is_fake(buffer)), None)
    if empty is not None:
        raise _NotChecked(f"its buffer '{empty}' has no value")


def _said(error: Exception) -> str:
    return str(error).partition("\n")[0][:300] or type(error).__name__
