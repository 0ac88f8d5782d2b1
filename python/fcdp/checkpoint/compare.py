# SPDX-License-Identifier: Apache-2.0
"""Compares two checkpoints state by state, by their names."""

from dataclasses import dataclass, field

import torch

from fcdp.checkpoint.state import Checkpoint, State

# Elements that are compared at once. Differences are computed in float64.
_STEP = 1 << 20
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

Key = tuple[str, str, int]


@dataclass(frozen=True)
class Difference:
    """How two states of one name differ. Without numbers if their shapes differ."""

    first: State
    second: State
    different: int | None = None  # Elements whose bits differ, or whose values do if the types differ.
    absolute: float | None = None
    relative: float | None = None


@dataclass
class Comparison:
    compared: int = 0
    bytes: int = 0
    differences: list[Difference] = field(default_factory=list)
    only_in_first: list[str] = field(default_factory=list)
    only_in_second: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        return not (self.differences or self.only_in_first or self.only_in_second)


def compare(first: Checkpoint, second: Checkpoint, tolerance: float | None) -> Comparison:
    """Compares all states that both formats can hold. States of ranks or nodes are compared for those that both have.

    With a tolerance, states count as equal if no element's relative difference exceeds it, whatever their types.
    """
    result = Comparison()
    ours, theirs = _by_key(first, second, result), _by_key(second, first, result)
    pairs = {(id(ours[key]), id(theirs[key])): (ours[key], theirs[key]) for key in ours if key in theirs}
    for one, other in pairs.values():
        result.compared += 1
        result.bytes += one.bytes
        difference = difference_of(one, other)
        if difference is not None and not _is_within(difference, tolerance):
            result.differences.append(difference)
    result.only_in_first = _without_partner(ours, theirs, result)
    result.only_in_second = _without_partner(theirs, ours, result)
    return result


def _by_key(checkpoint: Checkpoint, other: Checkpoint, result: Comparison) -> dict[Key, State]:
    found = {}
    for state in checkpoint.states:
        if not other.can_hold(state):
            result.not_compared.append(state.label)
            continue
        # Not all formats tell buffers from parameters, or a state of each rank from one of all.
        kind = "model" if state.is_model else state.role
        found.update({(kind, name, state.owner): state for name in state.names})
    return found


def _without_partner(ours: dict[Key, State], theirs: dict[Key, State], result: Comparison) -> list[str]:
    matched = {id(state) for key, state in ours.items() if key in theirs}
    lonely = {}
    for (kind, name, owner), state in ours.items():
        if id(state) in matched:
            continue
        if owner and any((kind, name, other) in theirs for other in range(owner)):
            result.not_compared.append(state.label)
        else:
            lonely[id(state)] = state.label
    return list(lonely.values())


def _is_within(difference: Difference, tolerance: float | None) -> bool:
    return tolerance is not None and difference.relative is not None and difference.relative <= tolerance


def difference_of(first: State, second: State) -> Difference | None:
    """Returns none if type, shape and all bits are equal."""
    if first.shape != second.shape:
        return Difference(first, second)
    different, absolute, relative = 0, 0.0, 0.0
    for one, other in zip(first.chunks(_STEP), second.chunks(_STEP)):
        count = _count_different(one, other)
        if count:
            different += count
            chunk = _greatest_differences(one.double(), other.double())
            absolute, relative = max(absolute, chunk[0]), max(relative, chunk[1])
    if not different and first.dtype == second.dtype:
        return None
    return Difference(first, second, different, absolute, relative)


def _count_different(one: torch.Tensor, other: torch.Tensor) -> int:
    if one.dtype != other.dtype:
        return int((one.double() != other.double()).sum())
    bits = _BITS[one.dtype.itemsize]
    one, other = one.view(bits), other.view(bits)
    return 0 if torch.equal(one, other) else int((one != other).sum())


def _greatest_differences(one: torch.Tensor, other: torch.Tensor) -> tuple[float, float]:
    """Returns the greatest absolute difference, and the greatest one relative to the larger of the two elements.

    A NaN differs infinitely from a number, and not from another NaN.
    """
    same = (one == other) | (one.isnan() & other.isnan())
    difference = torch.where(same, 0.0, (one - other).abs()).nan_to_num(nan=torch.inf, posinf=torch.inf)
    size = torch.maximum(one.abs(), other.abs())
    relative = torch.where(same, 0.0, difference / size).nan_to_num(nan=torch.inf, posinf=torch.inf)
    return difference.max().item(), relative.max().item()
