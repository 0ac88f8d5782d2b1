# SPDX-License-Identifier: Apache-2.0
"""Runs one step of plain PyTorch without changing the model."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fcdp.assertions import without_assertions
from fcdp.call import Call, loss_forward
from fcdp.errors import ExportError
from fcdp.leaves import check_leaves
from fcdp.recomputed import buffers_kept
from fcdp.recurrent import PAD_INSTEAD, is_of_packed
from fcdp.torch_private import buffer_table, fake_mode_of as mode_of_tensors, pytree

# With this seed the eager step and the archive draw the same dropout masks.
CHECK_SEED = 0


@dataclass(frozen=True)
class StepResult:
    """The loss (0-d) and the gradient of every trained parameter, or None if the loss does not depend on it."""

    loss: torch.Tensor
    gradients: dict[str, torch.Tensor | None]
    functions: tuple[str, ...] = ()
    """Names of the torch.autograd.Functions whose backward computed the gradients."""


def fake_mode_of(model: nn.Module) -> Any:
    """Returns the FakeTensorMode that the model was built under, or None if it has real weights."""
    return mode_of_tensors([*model.parameters(), *model.buffers()])


def eager_step(model: nn.Module, call: Call) -> StepResult:
    """Returns the loss and the gradients of one step. Buffers and `.grad` do not change.

    Raises ExportError if the loss has no gradient.
    """
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not trained:
        raise ExportError("expected a parameter with requires_grad=True, got none: there is nothing to train")
    mode = fake_mode_of(model)
    with contextlib.ExitStack() as stack:
        stack.enter_context(loss_forward(model, call))
        stack.enter_context(unchanged_buffers(model))
        stack.enter_context(check_seed())
        stack.enter_context(torch.enable_grad())
        values = call.values
        if mode is not None:
            values = pytree.tree_map_only(torch.Tensor, mode.from_tensor, values)
            stack.enter_context(mode)
            stack.enter_context(without_assertions())
        stack.enter_context(_model_errors())
        loss = model(*values)
        if not loss.requires_grad:
            raise ExportError(
                "expected a loss that depends on the parameters, got one without a gradient; "
                "look for torch.no_grad(), .detach() or checkpoint(use_reentrant=True) between parameters and loss"
            )
        check_leaves(model, call, loss)
        functions = _functions_of(loss)
        with buffers_kept(model):
            gradients = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
    return StepResult(loss.detach(), dict(zip(trained, gradients)), functions)


def _functions_of(loss: torch.Tensor) -> tuple[str, ...]:
    """Returns the names of the torch.autograd.Functions that compute the gradients of `loss`."""
    found, waiting, seen = set(), [loss.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [following for following, _ in node.next_functions]
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            found.add(type(node).__name__.removesuffix("Backward"))
    return tuple(sorted(found))


def eager_loss(model: nn.Module, call: Call) -> StepResult:
    """Returns the loss of one step without gradients. Buffers do not change."""
    with _model_errors(), loss_forward(model, call), unchanged_buffers(model), check_seed(), torch.no_grad():
        return StepResult(model(*call.values), {})


@contextlib.contextmanager
def _model_errors() -> Iterator[None]:
    """Makes an ExportError of an error of the model."""
    try:
        yield
    except ExportError:
        raise
    except Exception as error:
        if is_of_packed(error):
            raise ExportError(PAD_INSTEAD) from error
        raise ExportError(f"the model fails on the example inputs in plain PyTorch, without fcdp: {error}") from error


@contextlib.contextmanager
def check_seed() -> Iterator[None]:
    """Seeds the random generators with CHECK_SEED until the context ends."""
    with torch.random.fork_rng():
        torch.manual_seed(CHECK_SEED)
        yield


@contextlib.contextmanager
def unchanged_buffers(model: nn.Module) -> Iterator[None]:
    """Restores every buffer when the context ends: its value, and the tensor itself if forward assigned another."""
    saved = [
        (module, name, buffer, buffer.clone())
        for module in model.modules()
        for name, buffer in buffer_table(module).items()
        if buffer is not None
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            for module, name, buffer, value in saved:
                buffer.copy_(value)
                buffer_table(module)[name] = buffer
