# SPDX-License-Identifier: Apache-2.0
"""Tells whether a step does the same when it runs again, by two passes of tensors without values."""

import contextlib
import ctypes
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fcdp.attributes import (
    HeldTensor,
    Registered,
    changes,
    held_values,
    is_fcdps,
    is_standard,
    is_torchs,
    unchanged_attributes,
)
from fcdp.call import Call
from fcdp.eager import OWN_LOSS, StepResult, fake_mode_of, model_errors, passes, step_of
from fcdp.empty import off_meta, without_values
from fcdp.errors import ExportError
from fcdp.garbage import without_collections
from fcdp.torch_private import (
    asks_for_metadata,
    is_fake,
    is_pytorchs,
    is_random,
    mutated_arguments,
    no_write_of_itself,
    operators_run_by,
    pytree,
)
from fcdp.watch.calls import Calls

_MOST_BYTES = 1 << 20

Values = dict[str, Any]

_INSTEAD = (
    "a compiled step has what Python computed in one pass, for ever. Keep it in a buffer (register_buffer) that operations of "
    "torch change, or out of forward. If forward fills it in its first pass alone, run the model once before the export"
)


@dataclass(frozen=True)
class Watched:
    """A step, and what the model holds before and after it.

    is_repeated: whether it is certain that a second step did the same, as `refuse_carried` tells it.
    """

    result: StepResult
    before: Values
    after: Values
    is_repeated: bool = False


def watched_twice(model: nn.Module, call: Call, calls: Calls, seeing: Callable[[], Any]) -> Watched:
    """Runs a step of a model without values within `seeing()`, and a second one.

    Operators of PyTorch are not watched by `calls`.
    """
    with without_collections(), passes(model, call) as forward:
        before = held_values(model, call.loss_fn)
        first = _Operations(model, before, calls)
        with seeing(), model_errors(has_values=False):
            result = step_of(model, call, forward, first.forward, first.backward)
        between = held_values(model, call.loss_fn)
        if changes(before, between):
            return Watched(result, before, between)
        second = first.next(model)
        try:
            with model_errors(has_values=False):
                second.run(model, forward)
        except ExportError:
            return Watched(result, before, between)
        is_same = second == first and not second.collective()
        return Watched(result, before, between, is_same and not changes(between, held_values(model, call.loss_fn)))


def refuse_carried(model: nn.Module, call: Call, changed: Sequence[str]) -> None:
    """Raises ExportError if a second pass is not the same as the first one. `changed`: what a pass is known to change.

    They are the same if the second one changes no number and has the same operations on the same operands. Operations
    on constants do not count: forward may keep their results. A number may be in a place that the export cannot read (a
    file, a variable of a context, an attribute of a library). Then the operations that depend on the number differ.
    """
    try:
        with model_errors(has_values=False), without_collections():
            before, first, between, second, after = _two_passes(model, call)
    except ExportError:
        if changed:
            raise
        # The trace has no values either, and says more. It must not use the code that PyTorch compiled here for
        # torch.cond.
        torch.compiler.reset()
        return
    if collective := second.collective():
        raise ExportError(f"the model communicates with other ranks ({collective}): {OWN_LOSS}")
    for path in changes(between, after):
        one, other = between.get(path), after.get(path)
        if not isinstance(one, HeldTensor) or not isinstance(other, HeldTensor):
            raise ExportError(_message(path, before, between))
    if second != first:
        found = changes(before, between) or list(changed)
        if not found:
            raise ExportError(f"the step does not do the same when it runs again: {second.difference(first)}; {_INSTEAD}")
        used = [path for path in found if isinstance(between.get(path), HeldTensor) and second.used(between[path].tensor)]
        raise ExportError(_message((used or found)[0], before, between))


def _two_passes(model: nn.Module, call: Call) -> tuple[Values, "_Operations", Values, "_Operations", Values]:
    """Returns the operations of two passes, and what the model holds before, between and after them."""
    with contextlib.ExitStack() as stack:
        if fake_mode_of(model) is None:
            stack.enter_context(without_values(model))
            stack.enter_context(off_meta(model))
        stack.enter_context(no_write_of_itself())
        stack.enter_context(unchanged_attributes(model, call.loss_fn))
        forward = stack.enter_context(passes(model, call))
        before = held_values(model, call.loss_fn)
        first = _Operations(model, before)
        first.run(model, forward)
        between = held_values(model, call.loss_fn)
        second = first.next(model)
        second.run(model, forward)
        return before, first, between, second, held_values(model, call.loss_fn)


def _message(path: str, before: Values, after: Values) -> str:
    if isinstance(registered := before.get(path, after.get(path)), Registered):
        return f"forward changes the {registered.kind} '{path}'; {_INSTEAD}"
    return f"forward changes '{path}': it was {_said(before, path)}, and is {_said(after, path)} after a pass; {_INSTEAD}"


def _said(values: Values, path: str) -> str:
    if path not in values:
        return "not there"
    value = values[path]
    if isinstance(value, HeldTensor):
        return f"a tensor of shape {list(value.tensor.shape)}"
    return repr(value) if len(repr(value)) < 60 else f"another {type(value).__name__}"


class _Operations:
    """Records the operations of a pass. An operand is known by its name, or by the operation that it is the result of.

    In the backward pass it is known by its shape, since autograd gives what it saved in other tensors.
    """

    def __init__(self, model: nn.Module, held: Values, calls: Calls | None = None) -> None:
        """calls: watches the pass, except within operators of PyTorch on tensors of its own types."""
        self._calls = calls
        # By id: how a tensor was made, and whether it depends on parameters, buffers, inputs or random numbers.
        self._made: dict[int, tuple[Any, bool]] = {}
        self._kept: list[torch.Tensor] = []
        self._log: list[int] = []
        self._said: list[str] = []
        self._in_forward = True
        self._inputs: set[int] = set()
        self._left: set[int] = set()
        self._used: set[int] = set()
        self._result: Any = None
        for path, value in held.items():
            if isinstance(value, HeldTensor):
                self._set(value.tensor, path, False)
        self._name_states(model)

    def next(self, model: nn.Module) -> "_Operations":
        """Returns a record of the next pass. Values that the first pass left, and that depend on its inputs, are other
        operands there.
        """
        following = _Operations(model, {})
        following._kept = self._kept
        following._inputs = self._inputs
        stays = {number for number, (_, varies) in self._made.items() if not varies or number in self._inputs}
        following._made = {number: made for number, made in self._made.items() if number in stays}
        # The trace refuses to change an input in place.
        following._made |= {number: (number, True) for number in self._inputs}
        following._left = self._made.keys() - stays
        following._name_states(model)
        return following

    def _name_states(self, model: nn.Module) -> None:
        for name, state in [*model.named_parameters(), *model.named_buffers()]:
            if self._made.get(id(state), (None, True))[1]:  # and not a table that a pass has put into a buffer
                self._set(state, name, True)
            self._left.discard(id(state))

    def run(self, model: nn.Module, forward: Callable[[], torch.Tensor]) -> None:
        loss = self.forward(forward)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if loss.requires_grad and trained:
            self.backward(lambda: torch.autograd.grad(loss, trained, allow_unused=True))

    def forward(self, run: Callable[[], torch.Tensor]) -> torch.Tensor:
        with operators_run_by(self._record):
            loss = run()
        self._result = self._of(loss)
        return loss

    def backward(self, run: Callable[[], Any]) -> Any:
        self._in_forward = False
        with operators_run_by(self._record):
            return run()

    def collective(self) -> str | None:
        """Returns the first operation on tensors of several ranks."""
        return next((said for said in self._said if "c10d" in said.partition("(")[0]), None)

    def used(self, tensor: torch.Tensor) -> bool:
        return id(tensor) in self._used

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Operations) and (self._log, self._result) == (other._log, other._result)

    __hash__ = None  # type: ignore[assignment]

    def difference(self, first: "_Operations") -> str:
        """Says where this pass, which is not equal to the first one, begins to differ."""
        pairs = enumerate(zip(self._log, first._log))
        same = next((i for i, (one, other) in pairs if one != other), min(len(self._log), len(first._log)))
        if same < len(self._said):
            other = "fewer operations" if same >= len(first._said) else first._said[same]
            return f"the first time it has {other}, and then {self._said[same]}"
        return f"only the first time it has {first._said[same]}" if same < len(first._said) else "its loss is another one"

    def _record(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._calls is None:
            return self._run(operator, args, kwargs)
        self._calls.pause()
        try:
            return self._run(operator, args, kwargs)
        finally:
            self._calls.resume()

    def _call(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any]) -> Any:
        if self._calls is None or (is_pytorchs(operator) and not any(map(_is_subclass, leaves))):
            return operator(*args, **kwargs)
        self._calls.resume()
        try:
            return operator(*args, **kwargs)
        finally:
            self._calls.pause()

    def _run(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if asks_for_metadata(operator):
            return operator(*args, **kwargs)
        leaves = pytree.tree_leaves((args, kwargs))
        operands = [self._of(leaf) for leaf in leaves]
        written = mutated_arguments(operator, args, kwargs)
        made = hash((str(operator), torch.is_grad_enabled(), tuple(operands)))
        varies = is_random(operator) or any(operand[1] for operand in operands)
        results = self._call(operator, args, kwargs, leaves)
        tensors = [value for value in [*written, *pytree.tree_leaves(results)] if isinstance(value, torch.Tensor)]
        for index, tensor in enumerate(tensors):
            self._set(tensor, (made, index), varies)
        if tensors and (varies or written):
            self._log.append(made)
            self._said.append(_described(operator, leaves))
        return results

    def _set(self, tensor: torch.Tensor, made: Any, varies: bool) -> None:
        self._made[id(tensor)] = (made, varies)
        self._kept.append(tensor)

    def _of(self, value: Any) -> tuple[Any, bool]:
        """Returns how an operand was made and whether it varies."""
        if not isinstance(value, torch.Tensor):
            # Branches of torch.cond are other functions in each pass.
            return type(value).__name__ if callable(value) else repr(value), False
        if not self._in_forward:
            is_constant = not is_fake(value)
            return (_content(value) if is_constant else (value.dtype, tuple(value.shape))), not is_constant
        if id(value) in self._left:
            self._used.add(id(value))
            return ("of the pass before", id(value)), True
        if id(value) not in self._made:
            # An input of the model, or a constant in the code of forward.
            if is_fake(value):
                self._inputs.add(id(value))
            self._set(value, *((id(value), True) if is_fake(value) else (_content(value), False)))
        return self._made[id(value)]


def _is_subclass(value: Any) -> bool:
    """Returns whether a value is a tensor that may have Python code of its own for operators."""
    return isinstance(value, torch.Tensor) and type(value) not in (torch.Tensor, nn.Parameter) and not is_fake(value)


def _described(operator: Any, leaves: Sequence[Any]) -> str:
    """Names an operation, its numbers, and the line of the program that it comes from."""
    numbers = ", ".join(repr(leaf) for leaf in leaves if isinstance(leaf, (bool, int, float, complex)))
    return f"{operator}({numbers}) {_place()}"


def _place() -> str:
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not (is_torchs(file) or is_standard(file) or is_fcdps(file)):
            return f"at {file}:{frame.f_lineno}"
        frame = frame.f_back
    return "in the backward pass"


def _content(tensor: torch.Tensor) -> Any:
    """Identifies a constant by its elements. PyTorch's own functions would be recorded."""
    is_readable = tensor.device.type == "cpu" and tensor.layout is torch.strided and tensor.is_contiguous()
    if not is_readable or tensor.nbytes > _MOST_BYTES:
        return id(tensor)
    return tensor.dtype, tensor.shape, ctypes.string_at(tensor.data_ptr(), tensor.nbytes)
