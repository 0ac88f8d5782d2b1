# SPDX-License-Identifier: Apache-2.0
"""Fits states of another format to a step: a checkpoint of the same step says their names, ties and roles."""

from dataclasses import replace
from pathlib import Path

import torch

from fcdp.checkpoint.compare import difference_of
from fcdp.checkpoint.dtypes import TORCH_TYPES
from fcdp.checkpoint.errors import CheckpointError
from fcdp.checkpoint.state import OPTIMIZER_ROLES, Checkpoint, Reader, State

_ADVICE = "name a checkpoint of the same model and optimizer"


def fit(source: Checkpoint, model: Checkpoint) -> Checkpoint:
    """Returns `source` with the states that `model` has.

    A parameter that the source has under several names is one state. Without any optimizer states in the source, new
    ones are zero, after no update. Raises CheckpointError for states that the source lacks, or that the model does not
    have.
    """
    stored = {(_kind(state), name): state for state in source.states for name in state.names}
    is_new = not any(state.role in OPTIMIZER_ROLES for state in source.states)
    is_new = is_new and any(state.role in OPTIMIZER_ROLES for state in model.states)
    states, used = [], set()
    for wanted in model.states:
        if wanted.owner or not _is_of_step(wanted):
            continue
        found = [stored[key] for name in wanted.names if (key := (_kind(wanted), name)) in stored]
        used |= {id(state) for state in found}
        if found:
            fitted = _fitted(found, wanted, source.path, model.path)
            states.append(replace(fitted, updates=0) if is_new and fitted.role == "value" else fitted)
        elif wanted.role in OPTIMIZER_ROLES and is_new:
            states.append(replace(wanted, read=_zeros(TORCH_TYPES[wanted.dtype])))
        else:
            raise CheckpointError(source.path, f"a state {wanted.label}, as in {model.path}", "none", _ADVICE)
    extra = [state.label for state in source.states if id(state) not in used and _is_of_step(state)]
    if extra:
        raise CheckpointError(source.path, f"only states of {model.path}", extra[0], _ADVICE)
    kept = [state for state in source.states if not _is_of_step(state)]
    return replace(source, states=[*states, *kept])


def _is_of_step(state: State) -> bool:
    """Returns whether a state belongs to the step. Random states, residuals and computed buffers belong to the job."""
    return state.is_model or state.role in (*OPTIMIZER_ROLES, "master")


def _kind(state: State) -> str:
    return "model" if state.is_model else state.role


def _fitted(found: list[State], wanted: State, source: Path, model: Path) -> State:
    first = found[0]
    if (first.dtype, first.shape) != (wanted.dtype, wanted.shape):
        expected = f"{wanted.label} of {wanted.dtype} {list(wanted.shape)}, as in {model}"
        raise CheckpointError(source, expected, f"{first.dtype} {list(first.shape)}", _ADVICE)
    if first.packed != wanted.packed:
        expected = f"{wanted.label} {_form(wanted)}, as in {model}"
        raise CheckpointError(source, expected, _form(first), _ADVICE)
    for other in found[1:]:
        if other is not first and difference_of(first, other) is not None:
            expected = f"{first.name} and {other.name} to be equal, as one parameter has both names"
            raise CheckpointError(source, expected, "two tensors that differ", _ADVICE)
    settings = {key: getattr(wanted, key) for key in ("names", "role", "trainable", "persistent", "packed")}
    return replace(first, rank=None, node=None, **settings)


def _form(state: State) -> str:
    return "as values" if state.packed is None else f"packed as {state.packed}"


def _zeros(dtype: torch.dtype) -> Reader:
    return lambda offset, length: torch.zeros(length, dtype=dtype)
