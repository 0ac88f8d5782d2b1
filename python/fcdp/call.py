# SPDX-License-Identifier: Apache-2.0
"""Converts example inputs to one call of the model that returns a scalar loss."""

import contextlib
import inspect
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fcdp.caches import CROSSES, restart, without_caches
from fcdp.errors import ExportError
from fcdp.suggestions import did_you_mean
from fcdp.torch_private import pytree

LossFn = Callable[[Any, Any], torch.Tensor]

# Inputs are traced under names with this prefix. torch renames nodes that have the name of an input ("view"), and then
# does not find their gradients.
INPUT_PREFIX = "fcdp_input_"

# The positions of tokens, by their name in Transformers.
_POSITIONS = "position_ids"


@dataclass(frozen=True)
class Call:
    """The example inputs of a step by name, in order.

    With `loss_fn`, the last input is its target and is not passed to `forward`.

    Inputs with tensors are the step's inputs. Others (flags, numbers, None) are constants of the step. Inputs that
    `full_masks` names are all ones in every step. Otherwise the loss is NaN.
    """

    given: dict[str, Any]
    by_keyword: bool
    loss_fn: LossFn | None
    full_masks: tuple[str, ...] = ()
    autocast: torch.dtype | None = None
    """The type of torch.autocast around `forward` and `loss_fn`, or None to leave autocast as it is."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, value in self.given.items() if _tensors(value))

    @property
    def values(self) -> tuple[Any, ...]:
        return tuple(self.given[name] for name in self.names)

    def leaves(self) -> list[torch.Tensor]:
        """Returns the tensors in the order of the archive's user inputs."""
        return pytree.tree_leaves(self.values)

    def loss(self, forward: Callable[..., Any], values: tuple[Any, ...]) -> torch.Tensor:
        """Calls `forward` with `values` in place of the example's and returns the 0-d loss.

        Raises ExportError if there is no loss.
        """
        given = {**self.given, **dict(zip(self.names, values))}
        target = None if self.loss_fn is None else given.pop(next(reversed(given)))
        with self._autocast():
            output = forward(**given) if self.by_keyword else forward(*given.values())
            loss = _as_scalar(_loss_of(output) if self.loss_fn is None else self.loss_fn(output, target))
        return self._nan_unless_full(loss, given)

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast("cuda" if any(leaf.is_cuda for leaf in self.leaves()) else "cpu", self.autocast)

    def _nan_unless_full(self, loss: torch.Tensor, given: dict[str, Any]) -> torch.Tensor:
        """Has the graph state what it relies on. Sessions find it there, and refuse other inputs by name."""
        for name in self.full_masks:
            loss = torch.where((given[name] == 1).all(), loss, torch.nan)
        return loss


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def kind_unless_dense(tensor: torch.Tensor) -> str | None:
    """Says what a tensor is whose elements do not lie in memory one by one."""
    if tensor.is_nested:
        return "nested"
    if tensor.layout is not torch.strided:
        return f"of {tensor.layout}"
    return "quantized" if tensor.is_quantized else None


def make_call(
    model: nn.Module,
    example_inputs: Any,
    loss_fn: LossFn | None,
    full_masks: Collection[str] = (),
    autocast: torch.dtype | None = None,
) -> Call:
    """Names the example inputs; raises ExportError if they do not fit `forward`.

    A tuple is passed by position and takes the names of `forward`'s arguments; a dict is passed by keyword. With
    `loss_fn`, the last one is the target: named by its key, or by `loss_fn`'s second argument.
    """
    by_keyword = isinstance(example_inputs, Mapping)
    if not by_keyword and not isinstance(example_inputs, (tuple, list)):
        example_inputs = (example_inputs,)
    if loss_fn is not None:
        _check_loss_fn(loss_fn)
    if loss_fn is not None and len(example_inputs) < 2:
        raise ExportError(
            "expected at least two example inputs with loss_fn (forward's inputs, then the target), "
            f"got {len(example_inputs)}"
        )
    if by_keyword:
        given = dict(example_inputs)
    else:
        given = dict(zip(_positional_names(model, tuple(example_inputs), loss_fn), example_inputs))
    _check_given(given)
    _check_full(given, full_masks)
    _check_autocast(autocast)
    return Call(_distinct(given), by_keyword, loss_fn, tuple(full_masks), autocast)


def _check_autocast(dtype: Any) -> None:
    if dtype is None or dtype is torch.bfloat16:
        return
    advice = ""
    if dtype is torch.float16:
        advice = (
            "; gradients in float16 need a loss scale: cast the model with fcdp.cast_parameters(model, torch.float16), and "
            "compile it with --loss-scale=on and --master=f32"
        )
    raise ExportError(f"autocast: expected torch.bfloat16 or None, got {dtype!r}{advice}")


def _distinct(given: dict[str, Any]) -> dict[str, Any]:
    """Copies a tensor that is given several times, because torch.export would make one input of it.

    Steps take values as they are, so a tensor that is marked as conjugate or negative is resolved.
    """
    seen: set[int] = set()

    def distinct(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) in seen:
            return leaf.clone()
        seen.add(id(leaf))
        return leaf.resolve_conj().resolve_neg()

    return pytree.tree_map(distinct, given)


def _positional_names(model: nn.Module, values: tuple[Any, ...], loss_fn: LossFn | None) -> tuple[str, ...]:
    args = values if loss_fn is None else values[:-1]
    signature = inspect.signature(model.forward)
    try:
        bound = signature.bind(*args)
    except TypeError as error:
        raise ExportError(
            f"the {len(args)} example inputs do not fit {type(model).__name__}.forward{signature}: {error}; "
            "give a tuple in the order of its arguments, or a dict by name"
        ) from error
    names: list[str] = []
    for name, value in bound.arguments.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}_{i}" for i in range(len(value))]
        else:
            names.append(name)
    if loss_fn is not None:
        names.append(_target_name(loss_fn, names))
    return tuple(names)


def _check_loss_fn(loss_fn: LossFn) -> None:
    function = loss_fn.forward if isinstance(loss_fn, nn.Module) else loss_fn
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None, None)
    except TypeError:
        raise ExportError(
            f"loss_fn: expected a function of the model's output and the target, which is the last example input, got {signature}"
        ) from None


def _target_name(loss_fn: LossFn, taken: list[str]) -> str:
    """Returns the name of `loss_fn`'s second argument, or "target" if it has none."""
    function = loss_fn.forward if isinstance(loss_fn, nn.Module) else loss_fn
    try:
        parameters = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        parameters = []
    name = parameters[1] if len(parameters) > 1 else "target"
    return f"{name}_1" if name in taken else name


def _check_given(given: dict[str, Any]) -> None:
    if not any(_tensors(value) for value in given.values()):
        raise ExportError("expected at least one tensor among the example inputs, got none")
    for name, value in given.items():
        tensors = _tensors(value)
        if tensors and len(tensors) != len(pytree.tree_leaves(value)):
            raise ExportError(f"expected only tensors in example input '{name}', got other values beside them")
        kind = next(filter(None, map(kind_unless_dense, tensors)), None)
        if kind is not None:
            raise ExportError(f"example input '{name}': expected a dense tensor (torch.strided), got one that is {kind}")
        if any(tensor.requires_grad for tensor in tensors):
            raise ExportError(
                f"example input '{name}' requires a gradient; only parameters can: detach it, "
                "or make it an nn.Parameter of the model"
            )


def _check_full(given: dict[str, Any], full_masks: Collection[str]) -> None:
    for name in full_masks:
        mask = given.get(name)
        if not isinstance(mask, torch.Tensor):
            tensors = ", ".join(f"'{other}'" for other, value in given.items() if isinstance(value, torch.Tensor))
            suggestion = did_you_mean(name, given)
            raise ExportError(
                f"full_masks: expected the name of a tensor among the inputs {tensors}; got '{name}'{suggestion}"
            )
        if mask.device.type != "meta" and not (mask == 1).all():
            raise ExportError(f"full_masks: expected only ones in the example input '{name}', which has other elements")
    positions = given.get(_POSITIONS)
    if full_masks and isinstance(positions, torch.Tensor) and restart(positions):
        masks = ", ".join(f"'{name}'" for name in full_masks)
        warnings.warn(f"full_masks: {CROSSES} there is no mask: leave {masks} out of the inputs", stacklevel=4)


@contextlib.contextmanager
def replaced_forward(model: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Has `model(...)` call `forward` until the context ends.

    The forward is replaced on the model itself, because a wrapping module would put a prefix on every parameter's name.
    """
    own = vars(model).get("forward")
    model.forward = forward
    try:
        yield
    finally:
        if own is None:
            del model.forward
        else:
            model.forward = own


@contextlib.contextmanager
def loss_forward(model: nn.Module, call: Call) -> Iterator[None]:
    """Makes `model(*call.values)` return the loss as a 0-d tensor until the context ends."""
    forward = model.forward

    def step(*values: Any) -> torch.Tensor:
        return call.loss(forward, values)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [INPUT_PREFIX + name for name in call.names]
    step.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    with without_caches(model, call.given.get("use_cache") is not False), replaced_forward(model, step):
        yield


def _loss_of(output: Any) -> Any:
    if isinstance(output, torch.Tensor):
        return output
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if loss is None:
        raise ExportError(
            "expected forward to return the loss (a scalar tensor) or an output with a 'loss', got "
            f"{type(output).__name__}; pass the labels that make the model compute it, or give loss_fn"
        )
    return loss


def _as_scalar(loss: Any) -> torch.Tensor:
    if not isinstance(loss, torch.Tensor):
        raise ExportError(f"expected the loss to be a tensor, got {type(loss).__name__}")
    if loss.numel() != 1:
        raise ExportError(
            f"expected a scalar loss, got shape {list(loss.shape)}; reduce it (for example .mean()), or give loss_fn"
        )
    if not loss.is_floating_point():
        raise ExportError(f"expected a floating-point loss, got {loss.dtype}")
    return loss.reshape(()) if loss.dim() else loss
