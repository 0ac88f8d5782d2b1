# SPDX-License-Identifier: Apache-2.0
"""Compares states that a program gives with those that a step has, before any of them is set."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fcdp.loop.sharded import is_sharded, rows_of

# All names, the first of which is canonical; the role; a tensor with type and shape; whether PyTorch's state dicts have
# it.
StateEntry = tuple[Sequence[str], str, torch.Tensor, bool]

VALUE, MASTER, STEP = "value", "master", "step"
# The only state of PyTorch's SGD and Muon, and that of Lion, which keep no count of updates.
_UNCOUNTED = ({"momentum_buffer"}, {"exp_avg"})
_MOST_NAMED = 10
_MOST_UPDATES = 1 << 53


@dataclass
class Problems:
    """States that do not fit, by kind. One message has all of them, so that it is the same on all ranks."""

    missing: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Returns "" if there is none."""
        kinds = {"they lack": self.missing, "the step has no": self.unknown, "these differ:": self.differing}
        found = "; ".join(f"{kind} {_listed(names)}" for kind, names in kinds.items() if names)
        return found and f"the given states do not fit the step: {found}"


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class Ranks:
    """This rank, and how many there are."""

    rank: int
    num_ranks: int


def _describe(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _misfit(tensor: Any, whole: torch.Tensor, ranks: Ranks) -> str | None:
    """Returns how a tensor, whole or a DTensor, differs from the state that it is for."""
    if not isinstance(tensor, torch.Tensor):
        return f"expected a tensor, got {type(tensor).__name__}"
    if (tensor.dtype, tensor.shape) != (whole.dtype, whole.shape):
        return f"expected {_describe(whole)}, got {_describe(tensor)}"
    if tensor.device.type == "meta" or tensor.layout != torch.strided:
        return f"expected a dense tensor with values, got one of {tensor.device} and {tensor.layout}"
    rows = rows_of(tensor, ranks.num_ranks) if is_sharded(tensor) else None
    if rows is not None and rows.shape != _own_shape(whole, ranks):
        return f"expected rows of shape {list(_own_shape(whole, ranks))} on rank {ranks.rank}, got {list(rows.shape)}"
    return None


def _own_shape(whole: torch.Tensor, ranks: Ranks) -> torch.Size:
    """Returns the shape of the rows that a rank has, as torch.chunk divides them."""
    if not whole.dim():
        return whole.shape
    rows = whole.shape[0]
    chunk = -(-rows // ranks.num_ranks)
    first = min(rows, ranks.rank * chunk)
    return torch.Size([min(chunk, rows - first), *whole.shape[1:]])


def _is_equal(one: Any, other: Any) -> bool:
    """Whether two tied names have the same value."""
    if one is other:
        return True
    if is_sharded(one) and is_sharded(other):
        return _is_equal(one.to_local(), other.to_local())
    are_tensors = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
    if not are_tensors or is_sharded(one) or is_sharded(other) or (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    return one.device.type == "meta" or torch.equal(_bytes(one), _bytes(other))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def match_values(
    states: Sequence[StateEntry], tensors: Mapping[str, Any], ranks: Ranks, is_model: bool
) -> tuple[dict[str, Any], Problems]:
    """Returns the values of parameters and buffers by canonical name, and what is wrong with them.

    is_model: the tensors are a model's, of which the step may have fewer.
    """
    found: dict[str, Any] = {}
    problems = Problems()
    for names, role, whole, persistent in states:
        if role != VALUE:
            continue
        given = [name for name in names if name in tensors]
        if not given:
            # The compiled step has the values of all others: constants, and buffers that no state dict has.
            problems.missing += [names[0]] if persistent else []
            continue
        found[names[0]] = tensors[given[0]]
        if misfit := _misfit(tensors[given[0]], whole, ranks):
            problems.differing.append(f"{given[0]} ({misfit})")
        for name in given[1:]:
            if not _is_equal(tensors[given[0]], tensors[name]):
                problems.differing.append(f"{given[0]} and {name}, which are one parameter")
    if not is_model:
        known = {name for names, role, *_ in states for name in names if role == VALUE}
        problems.unknown += [str(name) for name in tensors if name not in known]
    return found, problems


@dataclass(frozen=True)
class OptimizerStates:
    """The given states of an optimizer: tensors by canonical name and role, and counts of updates by name."""

    tensors: dict[tuple[str, str], Any]
    updates: dict[str, int]


def match_optimizer(
    states: Sequence[StateEntry], counted: Iterable[Sequence[str]], given: Any, ranks: Ranks
) -> tuple[OptimizerStates, Problems]:
    """Compares {parameter: {"step": ..., "exp_avg": ..., ...}} with the states that the optimizer has.

    counted: the parameters of each bucket, which has one count of updates.
    """
    problems = Problems()
    matched = OptimizerStates({}, {})
    if not isinstance(given, Mapping) or not all(isinstance(entry, Mapping) for entry in given.values()):
        expected_form = "{parameter: {'step': ..., ...}}, as optimizer_state_dict returns it"
        problems.differing.append(f"the whole (expected {expected_form})")
        return matched, problems
    entries = _entries(states, given, problems)
    expected: dict[str, dict[str, torch.Tensor]] = {}
    for names, role, whole, _ in states:
        if role != VALUE:
            expected.setdefault(names[0], {})[role] = whole
    has_masters = any(MASTER in entry for entry in entries.values())
    for name, roles in expected.items():
        entry = entries.pop(name, {})
        needed = [role for role in roles if role != MASTER or has_masters]
        problems.missing += [f"{role} of {name}" for role in needed if role not in entry]
        problems.unknown += [f"{role} of {name}" for role in entry if role not in (*roles, STEP)]
        for role in roles:
            if role in entry:
                matched.tensors[name, role] = entry[role]
                if misfit := _misfit(entry[role], roles[role], ranks):
                    problems.differing.append(f"{role} of {name} ({misfit})")
        _match_count(name, entry, roles, matched, problems)
    problems.unknown += [f"{role} of {name}" for name, entry in entries.items() for role in entry]
    problems.differing += _differing_counts(counted, matched.updates)
    return matched, problems


def _entries(
    states: Sequence[StateEntry], given: Mapping[str, Mapping[str, Any]], problems: Problems
) -> dict[str, dict[str, Any]]:
    """Returns what is given by canonical name, without what has no value."""
    canonical = {name: names[0] for names, *_ in states for name in names}
    entries: dict[str, dict[str, Any]] = {}
    for name, entry in given.items():
        kept = {role: value for role, value in entry.items() if value is not None}
        known = entries.setdefault(canonical.get(name, str(name)), kept)
        for role in kept.keys() | known.keys():
            if not _is_same(known.get(role), kept.get(role)):
                problems.differing.append(f"{role} of {canonical.get(name, name)} and {name}, which are one parameter")
    return entries


def _is_same(one: Any, other: Any) -> bool:
    are_tensors = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
    return _is_equal(one, other) if are_tensors else one is other or one == other


def _match_count(
    name: str, entry: Mapping[str, Any], roles: Mapping[str, Any], matched: OptimizerStates, problems: Problems
) -> None:
    if STEP not in entry:
        # Only the first update differs from later ones.
        own = set(roles) - {MASTER}
        if own in _UNCOUNTED and own <= entry.keys():
            matched.updates[name] = 1
        else:
            problems.missing.append(f"{STEP} of {name}")
        return
    count = _count_of(entry[STEP])
    if count is None:
        problems.differing.append(f"{STEP} of {name} (expected a number of updates, got {entry[STEP]!r})")
    else:
        matched.updates[name] = count


def _count_of(value: Any) -> int | None:
    if is_sharded(value):
        value = value.to_local()
    if isinstance(value, torch.Tensor):
        value = value.item() if value.numel() == 1 and value.device.type != "meta" else None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value <= _MOST_UPDATES and int(value) == value else None


def _differing_counts(counted: Iterable[Sequence[str]], updates: Mapping[str, int]) -> Iterator[str]:
    for names in counted:
        found = {name: updates[name] for name in names if name in updates}
        first = next(iter(found), None)
        other = next((name for name in found if found[name] != found[first]), None)
        if other is not None:
            counts = f"{found[first]} and {found[other]} updates, and their bucket has one count"
            yield f"{STEP} of {first} and {other} ({counts})"
