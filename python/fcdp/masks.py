# SPDX-License-Identifier: Apache-2.0
"""Replaces masks of attention that are known at export: a causal one by `is_causal`, one that hides nothing by no mask.

Kernels skip what `is_causal` hides, but compute all that a tensor hides, and the flash kernel of CUDA takes no mask.
Transformers makes a tensor of every mask while torch.export traces.
"""

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from fcdp.known import KnownValues, callee_of, constants_of
from fcdp.torch_private import count_writes

_ATTENTION = torch.ops.aten.scaled_dot_product_attention.default
_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
"""The arguments of attention that are given by position."""


class Pattern(Enum):
    """The keys that a mask lets each query see."""

    ALL = auto()
    CAUSAL = auto()
    """Query i sees the keys 0 to i, and there are as many queries as keys."""
    OTHER = auto()


def simplify_masks(forward: ExportedProgram, inputs: Mapping[str, torch.Tensor]) -> None:
    """Replaces known masks in a program of torch.export.export, in which attention is not decomposed.

    inputs: the inputs that have the same values in every step, by name.

    A mask is known if it is computed of these, numbers, constants and non-persistent buffers alone. It is evaluated and
    compared. Masks that depend on other inputs, parameters, persistent buffers or random numbers stay.
    """
    with torch.no_grad():
        _simplify(forward.graph_module, constants_of(forward) | inputs)


def pattern_of(mask: torch.Tensor, queries: int, keys: int) -> Pattern:
    """mask: as attention takes it: true where a query sees a key, or a number that is added to the score.

    A number hides a key if it is minus infinity or the least number of its type: beside any key that is seen, a hidden
    one has the weight 0.
    """
    mask = torch.broadcast_to(mask, torch.broadcast_shapes(mask.shape, (queries, keys)))
    for dim in range(mask.dim() - 2):
        if mask.stride(dim) == 0:
            mask = mask.narrow(dim, 0, 1)
    seen = mask
    if mask.dtype is not torch.bool:
        seen = mask == 0
        if not torch.all(seen | (mask <= torch.finfo(mask.dtype).min)):
            return Pattern.OTHER
    if torch.all(seen):
        return Pattern.ALL
    if queries == keys and torch.all(seen == torch.ones(queries, keys, dtype=torch.bool).tril()):
        return Pattern.CAUSAL
    return Pattern.OTHER


def _simplify(module: fx.GraphModule, inputs: Mapping[str, torch.Tensor]) -> None:
    """Replaces the masks of a graph and of the graphs that it calls. inputs: known values of placeholders by name."""
    known = KnownValues(module.graph, inputs, _wanted(module.graph))
    patterns = _Patterns()
    for node in module.graph.nodes:
        if node.target is _ATTENTION:
            _replace_mask(node, known, patterns)
        elif callee := callee_of(node):
            _simplify(callee, _inputs_of(callee, node, known))
        known.visit(node)
    module.recompile()


def _wanted(graph: fx.Graph) -> Iterator[fx.Node]:
    """Yields the masks in a graph, and what it passes to others, which may be masks there."""
    for node in graph.nodes:
        if node.target is _ATTENTION and isinstance(mask := _arguments(node)["attn_mask"], fx.Node):
            yield mask
        elif callee_of(node):
            yield from node.all_input_nodes


def _inputs_of(callee: fx.GraphModule, call: fx.Node, known: KnownValues) -> dict[str, torch.Tensor]:
    # Arguments of the graph are last in its call.
    placeholders = callee.graph.find_nodes(op="placeholder")
    given = call.args[len(call.args) - len(placeholders) :]
    values = {inner.name: known.get(arg) for inner, arg in zip(placeholders, given, strict=True)}
    return {name: value for name, value in values.items() if value is not None}


def _arguments(attention: fx.Node) -> dict[str, Any]:
    defaults = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False}
    return defaults | dict(zip(_ARGUMENTS, attention.args)) | attention.kwargs


class _Patterns:
    """Remembers the pattern of a mask for the next layer, which has the same one."""

    def __init__(self) -> None:
        self._mask: torch.Tensor | None = None
        self._of: tuple[int, int, int] | None = None
        self._pattern = Pattern.OTHER

    def get(self, mask: torch.Tensor, queries: int, keys: int) -> Pattern:
        asked = (count_writes(mask), queries, keys)
        if mask is not self._mask or asked != self._of:
            self._mask, self._of, self._pattern = mask, asked, pattern_of(mask, queries, keys)
        return self._pattern


def _replace_mask(attention: fx.Node, known: KnownValues, patterns: _Patterns) -> None:
    arguments = _arguments(attention)
    mask = known.get(arguments["attn_mask"])
    if mask is None:
        return
    queries, keys = (arguments[name].meta["val"].shape[-2] for name in ("query", "key"))
    pattern = patterns.get(mask, queries, keys)
    if pattern is Pattern.OTHER:
        return
    arguments |= {"attn_mask": None, "is_causal": pattern is Pattern.CAUSAL}
    attention.args = tuple(arguments.pop(name) for name in _ARGUMENTS)
    attention.kwargs = arguments
