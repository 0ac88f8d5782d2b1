# SPDX-License-Identifier: Apache-2.0
"""Sees where forward changes whether a parameter is trained, also if it takes that back."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from fcdp.watch.calls import Calls, Rule


@contextlib.contextmanager
def watched_flags(model: nn.Module, calls: Calls) -> Iterator[None]:
    """Reports changes of requires_grad of the model's parameters to `calls`, until the context ends.

    On other tensors, requires_grad changes no gradient of a parameter.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    flag, change, detach = torch.Tensor.requires_grad, torch.Tensor.requires_grad_, torch.Tensor.detach_

    def see(tensor: torch.Tensor, value: bool) -> None:
        if (name := names.get(id(tensor))) and value != tensor.requires_grad:
            calls.report(_rule(name, value), f"requires_grad={value}", sys._getframe(2))

    def assign(tensor: torch.Tensor, value: Any) -> None:
        see(tensor, bool(value))
        flag.__set__(tensor, value)

    def requires_grad_(tensor: torch.Tensor, requires_grad: bool = True) -> torch.Tensor:
        see(tensor, requires_grad)
        return change(tensor, requires_grad)

    def detach_(tensor: torch.Tensor) -> torch.Tensor:
        see(tensor, False)
        return detach(tensor)

    with (
        _replaced("requires_grad", property(flag.__get__, assign)),
        _replaced("requires_grad_", requires_grad_),
        _replaced("detach_", detach_),
    ):
        yield


@contextlib.contextmanager
def _replaced(name: str, value: Any) -> Iterator[None]:
    """Gives torch.Tensor another attribute until the context ends."""
    own = vars(torch.Tensor).get(name)
    setattr(torch.Tensor, name, value)
    try:
        yield
    finally:
        if own is None:
            delattr(torch.Tensor, name)
        else:
            setattr(torch.Tensor, name, own)


def _rule(name: str, value: Any) -> Rule:
    return Rule(
        f"changes whether the parameter '{name}' is trained",
        "a compiled step trains a parameter or does not: "
        + ("train it from the start" if value else "use its .detach() there, as by torch.func.functional_call"),
        through=("/torch/nn/modules/module.py",),
        of_gradients=True,
    )
