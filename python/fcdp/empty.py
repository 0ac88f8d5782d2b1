# SPDX-License-Identifier: Apache-2.0
"""Builds models whose parameters have no values, for models that do not fit into the memory of the machine that
exports.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from fcdp.torch_private import buffer_table, is_fake, new_fake_mode, parameter_table, take_gradient_hooks


@contextlib.contextmanager
def empty_weights() -> Iterator[None]:
    """Puts every parameter that a module registers on the device "meta", without memory. Buffers get their values.

    On the device "meta" or under FakeTensorMode as a whole, computed buffers (rotary tables, masks) would have no
    values, and files of weights do not have them either. The same as init_empty_weights of Hugging Face's Accelerate.
    """
    register = nn.Module.register_parameter

    def register_empty(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        register(module, name, parameter)
        # A parameter of a lazy module has no shape yet, and the export refuses it.
        if parameter is not None and not is_lazy(parameter) and parameter.device.type != "meta":
            empty = nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)
            take_gradient_hooks(empty, parameter)
            parameter_table(module)[name] = empty

    nn.Module.register_parameter = register_empty  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]


@contextlib.contextmanager
def off_meta(model: nn.Module) -> Iterator[None]:
    """Replaces tensors on the device "meta" by tensors on the CPU without memory, until the context ends."""
    mode = new_fake_mode()

    def replacement(tensor: torch.Tensor) -> torch.Tensor | None:
        is_empty = tensor.device.type == "meta" and not is_fake(tensor)
        return _without_memory(tensor, mode) if is_empty else None

    with replaced(model, replacement):
        yield


@contextlib.contextmanager
def without_values(model: nn.Module) -> Iterator[None]:
    """Replaces parameters by parameters on the device "meta", until the context ends. Buffers stay."""

    def replacement(tensor: torch.Tensor) -> torch.Tensor | None:
        is_parameter = isinstance(tensor, nn.Parameter)
        return nn.Parameter(tensor.detach().to("meta"), tensor.requires_grad) if is_parameter else None

    with replaced(model, replacement):
        yield


@contextlib.contextmanager
def unmarked(model: nn.Module) -> Iterator[None]:
    """Replaces tensors that are marked as conjugate or negative of what their memory has, until the context ends."""

    def replacement(tensor: torch.Tensor) -> torch.Tensor | None:
        if not (tensor.is_conj() or tensor.is_neg()):
            return None
        values = resolved(tensor.detach())
        return nn.Parameter(values, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else values

    with replaced(model, replacement):
        yield


def resolved(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the same values in memory as they are."""
    return tensor.resolve_conj().resolve_neg()


@contextlib.contextmanager
def replaced(model: nn.Module, replacement: Callable[[torch.Tensor], torch.Tensor | None]) -> Iterator[None]:
    """Replaces the tensors for which `replacement` returns another one. Tied names keep one tensor."""
    made: dict[int, torch.Tensor | None] = {}
    with contextlib.ExitStack() as undo:
        for module in model.modules():
            for table in (parameter_table(module), buffer_table(module)):
                for name, tensor in table.items():
                    if tensor is None:
                        continue
                    if id(tensor) not in made:
                        made[id(tensor)] = replacement(tensor)
                    if made[id(tensor)] is not None:
                        undo.callback(table.__setitem__, name, tensor)
                        table[name] = made[id(tensor)]
        yield


def _without_memory(tensor: torch.Tensor, mode: Any) -> torch.Tensor:
    with mode:
        empty = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
    return nn.Parameter(empty, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else empty
