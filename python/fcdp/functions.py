# SPDX-License-Identifier: Apache-2.0
"""Keeps the backward passes of torch.autograd.Functions in an export.

The trace of the forward pass would follow Function.forward, and the joint trace differentiate what that found. So the
first trace records an operator in place of a call, and the second one, which has autograd, calls the Function for it.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fcdp.errors import ExportError
from fcdp.torch_private import apply_function, count_writes, functions_applied_by, pytree

_PLAIN = (bool, int, float, complex, str, torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)


@dataclass
class _Call:
    """A call of a Function: its arguments but for tensors, and its results but for tensors once it has run."""

    function: type[torch.autograd.Function]
    arguments: Any
    results: Any = None

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        writes = [count_writes(tensor) for tensor in tensors]
        results = apply_function(self.function, *_merged(self.arguments, tensors))
        if [count_writes(tensor) for tensor in tensors] != writes:
            raise ExportError(
                f"the torch.autograd.Function {self.function.__name__} changes its input in place, which an export does not "
                "keep: return a new tensor"
            )
        found, self.results = _split(results)
        # An operator's results are tensors of their own.
        return [result.view_as(result) if any(result is tensor for tensor in tensors) else result for result in found]


# The calls in the export that runs.
_calls: list[_Call] = []


def _run(number: int, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return _calls[number].run(tensors)


_library = torch.library.Library("fcdp_export", "DEF")
_library.define("apply_function(int number, Tensor[] tensors) -> Tensor[]")
_library.impl("apply_function", _run, "Autograd")


@contextlib.contextmanager
def kept_functions() -> Iterator[contextlib.AbstractContextManager[None]]:
    """Lets an export keep Functions until the context ends. The forward pass is traced in the context that it gives."""
    try:
        yield functions_applied_by(_record)
    finally:
        _calls.clear()


def _record(function: type[torch.autograd.Function], *args: Any) -> Any:
    """Calls the operator that stands for a call of `function`."""
    tensors, arguments = _split(args)
    if not tensors or not all(_is_plain(leaf) for leaf in pytree.tree_leaves(arguments)):
        # A module or a function among the arguments may have tensors of its own.
        return apply_function(function, *args)
    call = _Call(function, arguments)
    _calls.append(call)
    results = torch.ops.fcdp_export.apply_function(len(_calls) - 1, tensors)
    return _merged(call.results, results)


class _Tensor:
    """Stands for a tensor."""


def _is_plain(leaf: Any) -> bool:
    return leaf is None or leaf is _Tensor or isinstance(leaf, _PLAIN)


def _split(values: Any) -> tuple[list[torch.Tensor], Any]:
    """Returns the tensors in `values`, and `values` without them."""
    tensors: list[torch.Tensor] = []

    def take(tensor: torch.Tensor) -> type:
        tensors.append(tensor)
        return _Tensor

    return tensors, pytree.tree_map_only(torch.Tensor, take, values)


def _merged(values: Any, tensors: Sequence[torch.Tensor]) -> Any:
    left = iter(tensors)
    return pytree.tree_map(lambda leaf: next(left) if leaf is _Tensor else leaf, values)
