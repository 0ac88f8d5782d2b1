# SPDX-License-Identifier: Apache-2.0
"""Refuses losses whose gradients reach tensors that are no parameters of the model.

An export makes constants of such tensors, so that they would never be trained.
"""

import contextlib
import functools
import inspect
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from fcdp.call import Call
from fcdp.errors import ExportError

# The most objects that are looked at to find the name of a tensor.
_MOST_OBJECTS = 20_000


def check_leaves(model: nn.Module, call: Call, loss: torch.Tensor, forward: Callable[[], torch.Tensor]) -> None:
    """Raises ExportError if `loss`, which has its graph of autograd, trains a tensor that is no parameter of the model.

    A tensor that forward makes trains nothing, though it requires a gradient: another pass, by `forward`, has another
    one.
    """
    known = {id(parameter) for parameter in model.parameters()}
    unknown = [leaf for leaf in _leaves(loss) if id(leaf) not in known]
    stay = {id(leaf) for leaf in _leaves(forward())} if unknown else set()
    for leaf in unknown:
        if id(leaf) in stay:
            raise ExportError(_message(model, call, leaf))


def _leaves(loss: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yields the tensors that a backward pass of `loss` would give a gradient."""
    waiting, seen = [loss.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [following for following, _ in node.next_functions]
        # The node that adds up a leaf's gradient is the only one with this attribute.
        if not node.next_functions and hasattr(node, "variable"):
            yield node.variable


def _message(model: nn.Module, call: Call, leaf: torch.Tensor) -> str:
    shape = list(leaf.shape)
    if (name := _name_in(call.loss_fn, leaf)) is not None:
        return (
            f"loss_fn has trained parameters ('{name}' {shape}), which a compiled step would keep as constants: make it a part "
            "of the model, whose forward then returns the loss, or freeze them with requires_grad_(False)"
        )
    name = _name_in(model, leaf) or _name_in(model.forward, leaf)
    what = f"a tensor {shape}" if name is None else f"'{name}' {shape}"
    return (
        f"the loss depends on {what}, which requires a gradient and is no parameter of the model, so that a compiled step would "
        "keep it as a constant: assign it as an nn.Parameter of a module (modules in a list belong in an nn.ModuleList), or "
        "freeze it with requires_grad_(False)"
    )


def _name_in(root: Any, tensor: torch.Tensor) -> str | None:
    """Returns the path by which an object holds a tensor, such as "criterion.proxies", or None if it is not found."""
    waiting, seen = deque([("", root)]), set()
    while waiting and len(seen) < _MOST_OBJECTS:
        path, value = waiting.popleft()
        if value is tensor:
            return path
        if id(value) in seen or isinstance(value, torch.Tensor):
            continue
        seen.add(id(value))
        waiting += [(f"{path}.{name}".strip("."), part) for name, part in _parts(value)]
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields what an object holds, with names as a program would write them."""
    if isinstance(value, nn.Module):
        yield from value.named_parameters(recurse=False)
        yield from value.named_children()
        yield from vars(value).items()
    elif isinstance(value, types.MethodType):
        yield "", value.__self__
        yield "", value.__func__
    elif isinstance(value, types.FunctionType):
        # A variable that has no value yet is an error of inspect.
        with contextlib.suppress(ValueError):
            held = inspect.getclosurevars(value)
            yield from held.nonlocals.items()
            yield from held.globals.items()
        yield from _numbered(value.__defaults__ or ())
        yield from (value.__kwdefaults__ or {}).items()
    elif isinstance(value, functools.partial):
        yield "", value.func
        yield from _numbered(value.args)
        yield from value.keywords.items()
    elif isinstance(value, dict):
        yield from ((str(key), part) for key, part in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from _numbered(value)
    elif not isinstance(value, (type, types.ModuleType)):
        yield from getattr(value, "__dict__", {}).items()


def _numbered(values: Any) -> Iterator[tuple[str, Any]]:
    return ((str(index), value) for index, value in enumerate(values))
