# SPDX-License-Identifier: Apache-2.0
"""Handles tied parameters: one tensor under several names.

A joint export needs one gradient per name, so every later name gets a copy during the export. A program that runs the
archive keeps one parameter and sums the gradients of its names.
"""

import contextlib
from collections.abc import Iterator

import torch
from torch import nn

from fcdp.errors import ExportError
from fcdp.torch_private import is_fake, module_table, parameter_table, with_own_tables


@contextlib.contextmanager
def separated(model: nn.Module) -> Iterator[list[list[str]]]:
    """Gives each name of a tied parameter a tensor of its own until the context ends.

    Yields the groups of tied names, each in the model's order.
    """
    with contextlib.ExitStack() as undo:
        _copy_shared_modules(model, set(), undo)
        groups: dict[int, list[str]] = {}
        for prefix, module in model.named_modules():
            for leaf, parameter in parameter_table(module).items():
                if parameter is None:
                    continue
                names = groups.setdefault(id(parameter), [])
                if names:
                    undo.callback(parameter_table(module).__setitem__, leaf, parameter)
                    parameter_table(module)[leaf] = nn.Parameter(parameter.detach().clone(), parameter.requires_grad)
                names.append(f"{prefix}.{leaf}" if prefix else leaf)
        yield [names for names in groups.values() if len(names) > 1]


def _copy_shared_modules(module: nn.Module, seen: set[int], undo: contextlib.ExitStack) -> None:
    """Replaces each later occurrence of a shared module by a shallow copy."""
    for name, child in list(module_table(module).items()):
        if child is None:
            continue
        if id(child) in seen:
            undo.callback(module_table(module).__setitem__, name, child)
            child = with_own_tables(child)
            module_table(module)[name] = child
        seen.add(id(child))
        _copy_shared_modules(child, seen, undo)


def choose_roots(groups: list[list[str]], reached: set[str]) -> dict[str, str]:
    """Returns {copy: root} for every tied name but the root.

    The root is the first name of the group that the loss depends on, so it has a gradient if the parameter has one.
    """
    ties = {}
    for names in groups:
        root = next((name for name in names if name in reached), names[0])
        ties.update({name: root for name in names if name != root})
    return ties


def check_overlap(model: nn.Module) -> None:
    """Raises ExportError if a parameter's bytes overlap those of another tensor of the model, which is not the same
    one.
    """
    spans = []
    for names, is_parameter in ((model.named_parameters(), True), (model.named_buffers(), False)):
        spans += [(*_span(tensor), name, is_parameter) for name, tensor in names if _has_bytes(tensor)]
    end, owner, owner_is_parameter = 0, "", False
    for start, stop, name, is_parameter in sorted(spans):
        if start < end and (is_parameter or owner_is_parameter):
            raise ExportError(
                f"'{owner}' and '{name}' share memory without being the same nn.Parameter; assign the one parameter "
                "to both names to tie them, or .clone() one of them"
            )
        if stop > end:
            end, owner, owner_is_parameter = stop, name, is_parameter


def _has_bytes(tensor: torch.Tensor) -> bool:
    return not is_fake(tensor) and tensor.device.type != "meta" and tensor.numel() > 0


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Returns the addresses of the first byte and of one past the last byte of a strided tensor."""
    elements = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr(), tensor.data_ptr() + elements * tensor.element_size()
