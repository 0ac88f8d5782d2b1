# SPDX-License-Identifier: Apache-2.0
"""Runs one step of plain PyTorch without changing the model."""

import contextlib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fcdp.assertions import without_assertions
from fcdp.attributes import is_fcdps, is_standard, is_torchs, unchanged_attributes
from fcdp.call import Call, loss_forward
from fcdp.compiled import compiled_as_eager
from fcdp.errors import ExportError
from fcdp.experts import grouped_products_of_all_types
from fcdp.inference import inference_as_no_grad
from fcdp.leaves import check_leaves
from fcdp.logs import without_torch_logs
from fcdp.recomputed import buffers_kept
from fcdp.recurrent import PAD_INSTEAD, is_of_packed
from fcdp.regions import preserved_randomness
from fcdp.torch_private import buffer_table, fake_mode_of as mode_of_tensors, pytree

OWN_LOSS = (
    "give the loss of one rank's micro-batch, without gathers and sums over ranks; a compiled step takes the mean over "
    "ranks itself"
)

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
    """Returns the loss and the gradients of one step. Buffers, attributes and `.grad` do not change.

    Raises ExportError if the loss has no gradient.
    """
    with unchanged_attributes(model, call.loss_fn):
        return changing_step(model, call)


def changing_step(model: nn.Module, call: Call) -> StepResult:
    """Does what `eager_step` does, and leaves attributes as the forward pass left them."""
    with passes(model, call) as forward, model_errors(fake_mode_of(model) is None):
        return step_of(model, call, forward, lambda run: run(), lambda run: run())


def step_of(
    model: nn.Module,
    call: Call,
    forward: Callable[[], torch.Tensor],
    in_forward: Callable[[Callable[[], Any]], Any],
    in_backward: Callable[[Callable[[], Any]], Any],
) -> StepResult:
    """Runs a step within `passes`, which gives `forward`. `in_forward` and `in_backward` call its two passes."""
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not trained:
        raise ExportError("expected a parameter with requires_grad=True, got none: there is nothing to train")
    loss = in_forward(forward)
    if not loss.requires_grad:
        raise ExportError(
            "expected a loss that depends on the parameters, got one without a gradient; "
            "look for torch.no_grad(), .detach() or checkpoint(use_reentrant=True) between parameters and loss"
        )
    check_leaves(model, call, loss, forward)
    functions = _functions_of(loss)
    with buffers_kept(model):
        gradients = in_backward(lambda: torch.autograd.grad(loss, list(trained.values()), allow_unused=True))
    return StepResult(loss.detach(), dict(zip(trained, gradients)), functions)


@contextlib.contextmanager
def passes(model: nn.Module, call: Call) -> Iterator[Callable[[], torch.Tensor]]:
    """Yields what runs forward and loss. Buffers and random generators are as before when the context ends."""
    mode = fake_mode_of(model)
    values = call.values
    with contextlib.ExitStack() as stack:
        stack.enter_context(as_eager())
        stack.enter_context(loss_forward(model, call))
        stack.enter_context(unchanged_buffers(model))
        stack.enter_context(check_seed())
        stack.enter_context(torch.enable_grad())
        stack.enter_context(without_torch_logs())
        if mode is not None:
            values = pytree.tree_map_only(torch.Tensor, mode.from_tensor, values)
            stack.enter_context(mode)
            stack.enter_context(without_assertions())
            stack.enter_context(grouped_products_of_all_types())
        yield lambda: model(*values)


@contextlib.contextmanager
def as_eager() -> Iterator[None]:
    """Makes code under torch.compile run as if it were not compiled, and checkpoints repeat their random numbers.

    A compiled step does the same: its recomputation has the dropout masks of the forward pass, with
    preserve_rng_state=False, too. Parts under torch.inference_mode are not trained.
    """
    with compiled_as_eager(), preserved_randomness(), inference_as_no_grad():
        yield


def nodes_of(loss: torch.Tensor) -> set[Any]:
    """Returns the nodes of autograd that compute the gradients of `loss`."""
    waiting, seen = [loss.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return seen


def _functions_of(loss: torch.Tensor) -> tuple[str, ...]:
    """Returns the names of the torch.autograd.Functions that compute the gradients of `loss`."""
    functions = [node for node in nodes_of(loss) if isinstance(node, torch.autograd.function.BackwardCFunction)]
    return tuple(sorted({type(node).__name__.removesuffix("Backward") for node in functions}))


def eager_loss(model: nn.Module, call: Call) -> StepResult:
    """Returns the loss of one step without gradients. Buffers and attributes do not change."""
    with unchanged_attributes(model, call.loss_fn), passes(model, call) as forward:
        with torch.no_grad(), model_errors(fake_mode_of(model) is None):
            return StepResult(forward(), {})


@contextlib.contextmanager
def model_errors(has_values: bool) -> Iterator[None]:
    """Makes an ExportError of an error of the model. Without values, it is not known to fail in plain PyTorch, too."""
    try:
        yield
    except ExportError:
        raise
    except Exception as error:
        if is_of_packed(error):
            raise ExportError(PAD_INSTEAD) from error
        if "process group has not been initialized" in str(error):
            raise ExportError(
                f"the model communicates with other ranks{place_of(error)}, and this process has no process group: {OWN_LOSS}"
            ) from error
        if not has_values and _needs_values(error):
            raise ExportError(
                f"forward needs the values of a tensor, which a compiled step does not wait for ({error}{place_of(error)}): "
                "use torch.where, or constants, in place of .item(), .numpy() and of a branch"
            ) from error
        without_values = f"in a pass with tensors that have no values{place_of(error)}"
        where = "in plain PyTorch, without fcdp" if has_values else without_values
        raise ExportError(f"the model fails on the example inputs {where}: {error}") from error


def _needs_values(error: Exception) -> bool:
    """Returns whether an error of a pass without values is of code that asks for one."""
    if any(part in type(error).__name__ for part in ("DataDependent", "DynamicOutputShape")):
        return True
    texts = ("cannot be called on meta tensors", ".numpy() is not supported", "Cannot copy out of meta tensor")
    return any(text in str(error) for text in texts)


def place_of(error: Exception) -> str:
    """Returns the innermost line of an error that is not of PyTorch, Python or this package, and what PyTorch ran for
    it.
    """
    inner, place = "", ""
    for frame in traceback.extract_tb(error.__traceback__):
        if is_torchs(frame.filename) and "/torch/nn/modules/" in frame.filename and not frame.name.startswith("_"):
            inner = f" in {Path(frame.filename).name}:{frame.lineno}"
        elif not (is_torchs(frame.filename) or is_standard(frame.filename) or is_fcdps(frame.filename)):
            inner, place = "", f", {frame.filename}:{frame.lineno}"
    return place + inner


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
