# SPDX-License-Identifier: Apache-2.0
"""Recognises masks of causal attention within documents: tokens are equal in one tensor, and in order in another.

Transformers makes such a mask of positions that restart in a row (masking_utils.packed_sequence_mask_function). The
mask may compare any integers that a step computes, because the kernel looks at their values in each step.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from fcdp.known import KnownValues, constants_of, with_ancestors
from fcdp.masks import Pattern, pattern_of
from fcdp.packed import BACKWARD, OPERATOR
from fcdp.torch_private import pytree

_aten = torch.ops.aten
_INTEGERS = (torch.int32, torch.int64)
# They give elements of their first argument, in another order or shape.
_VIEWS = {
    _aten.alias.default,
    _aten.clone.default,
    _aten.contiguous.default,
    _aten.detach.default,
    _aten.expand.default,
    _aten.index.Tensor,
    _aten.permute.default,
    _aten.reshape.default,
    _aten.select.int,
    _aten.slice.Tensor,
    _aten.squeeze.dim,
    _aten.transpose.int,
    _aten.unsqueeze.default,
    _aten.view.default,
}
_CASTS = {_aten._to_copy.default, _aten.to.device, _aten.to.dtype, _aten.to.dtype_layout}
_SAME_SHAPE = {
    _aten.alias.default,
    _aten.clone.default,
    _aten.contiguous.default,
    _aten.detach.default,
    _aten.expand.default,
    _aten.slice.Tensor,
}
_ANDS = {_aten.bitwise_and.Tensor, _aten.logical_and.default, _aten.__and__.Tensor, _aten.mul.Tensor}
# Integers of more elements than this are not followed.
_GREATEST_SOURCE = 1 << 24
_FORWARD = _aten._scaled_dot_product_flash_attention_for_cpu.default
_FORWARD_ARGUMENTS = ("query", "key", "value", "dropout_p", "is_causal")
_GRADIENT = _aten._scaled_dot_product_flash_attention_for_cpu_backward.default
_GRADIENT_ARGUMENTS = ("grad_out", "query", "key", "value", "out", "logsumexp", "dropout_p", "is_causal")


def attend_by_document(joint: ExportedProgram) -> None:
    """Puts the operator that runs document by document in place of attention under a mask that keeps documents apart.

    joint: a program without operators that write in place, as `joint_program` returns it.
    """
    graph = joint.graph
    calls = [node for node in graph.nodes if node.target in (_FORWARD, _GRADIENT)]
    masks = {node: mask for node in calls if isinstance(mask := node.kwargs.get("attn_mask"), fx.Node)}
    if not masks:
        return
    with torch.no_grad():
        found = _find(joint, set(masks.values()))
    chosen = {node: found[mask] for node, mask in masks.items() if mask in found and _is_suited(node, found[mask])}
    # A backward pass takes what its forward pass has saved.
    forwards = {node: _forward_of(node) for node in calls if node.target is _GRADIENT}
    torn = {forward for node, forward in forwards.items() if node not in chosen or chosen.get(forward) != chosen[node]}
    for node, mask in chosen.items():
        if forwards.get(node, node) not in torn:
            _replace(node, mask)
    graph.eliminate_dead_code()
    joint.graph_module.recompile()


@dataclass(frozen=True)
class DocumentMask:
    """The meaning of a mask [..., tokens, tokens]: a token sees the tokens of its document that are not after it.

    `documents` and `positions`: integers [rows, tokens] or [tokens], or None if the mask does not depend on them.
    `is_ordered`: tokens are in the order of the row. `batch`: the dimension of rows, from the end, or None if all have
    one mask.
    """

    documents: fx.Node | None = None
    positions: fx.Node | None = None
    is_ordered: bool = False
    batch: int | None = None

    @property
    def is_whole(self) -> bool:
        return self.documents is not None and self.is_ordered == (self.positions is None)


@dataclass(frozen=True)
class _Taken:
    """Elements of `source`: `places` has the place in the flattened source of each."""

    source: fx.Node
    places: torch.Tensor


class _Finder:
    """Finds masks of documents in a graph, and keeps them in `found`.

    Call `visit` for each node in order, before the known values of its operands are freed.

    known: returns the value of a node that is the same in every step, or None.
    """

    def __init__(self, known: Callable[[object], torch.Tensor | None]) -> None:
        self._known = known
        self._taken: dict[fx.Node, _Taken] = {}
        self.found: dict[fx.Node, DocumentMask] = {}

    def _get(self, node: object) -> DocumentMask | None:
        return self.found.get(node) if isinstance(node, fx.Node) else None

    def visit(self, node: fx.Node) -> None:
        if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor):
            return
        value = node.meta["val"]
        if node.target in _CASTS:
            self._pass_on(node, value)
        elif value.dtype in _INTEGERS and node.target in _VIEWS:
            self._take(node)
        elif value.dtype is torch.bool and (found := self._mask(node, value)):
            self.found[node] = found
        elif value.is_floating_point() and node.target is _aten.where.self and self._hides(node):
            if found := self._get(node.args[0]):
                self.found[node] = found

    def _pass_on(self, node: fx.Node, value: torch.Tensor) -> None:
        """Has a node be what its first argument is, unless it changes the type."""
        first = node.args[0]
        if isinstance(first, fx.Node) and first.meta["val"].dtype is value.dtype:
            for found in (self._taken, self.found):
                if first in found:
                    found[node] = found[first]

    def _take(self, node: fx.Node) -> None:
        first, *others = node.args
        taken = self._places(first)
        others, kwargs = self._constants((others, node.kwargs))
        if taken is None or others is None:
            return
        places = node.target(taken.places, *others, **kwargs)
        # A part that is cut out of rows is a source of its own from there on.
        if places.dim() > 2 or torch.equal(places.flatten(), torch.arange(taken.source.meta["val"].numel())):
            self._taken[node] = _Taken(taken.source, places)

    def _constants(self, args: Any) -> tuple[Any, Any]:
        """Returns arguments with the values of nodes, or None if one is not known."""
        values = pytree.tree_map_only(fx.Node, lambda one: self._known(one), args)
        given = [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, fx.Node)]
        return (None, None) if any(self._known(one) is None for one in given) else values

    def _places(self, node: object) -> _Taken | None:
        if not isinstance(node, fx.Node):
            return None
        if node in self._taken:
            return self._taken[node]
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.dtype not in _INTEGERS or value.numel() > _GREATEST_SOURCE:
            return None
        return _Taken(node, torch.arange(value.numel()).reshape(tuple(value.shape)))

    def _mask(self, node: fx.Node, value: torch.Tensor) -> DocumentMask | None:
        if node.target in _ANDS:
            return self._both(node, value)
        if node.target is _aten.eq.Tensor:
            rows, batch = self._compared(node.args[0], node.args[1], value)
            swapped, other = self._compared(node.args[1], node.args[0], value)
            if rows or swapped:
                return DocumentMask(documents=rows or swapped, batch=batch if rows else other)
            return None
        if node.target in (_aten.le.Tensor, _aten.ge.Tensor):
            key, query = node.args if node.target is _aten.le.Tensor else reversed(node.args)
            rows, batch = self._compared(query, key, value)
            return DocumentMask(positions=rows, batch=batch) if rows else None
        found = self._get(node.args[0]) if node.args else None
        if found and node.target in _SAME_SHAPE:
            return found if _keeps_rows(node.args[0].meta["val"].shape, value.shape) else None
        if found and node.target is _aten.unsqueeze.default:
            dim = node.args[1] if node.args[1] < 0 else node.args[1] - value.dim()
            is_behind = found.batch is not None and dim >= found.batch
            return None if dim > -3 else replace(found, batch=found.batch - 1) if is_behind else found
        return None

    def _both(self, node: fx.Node, value: torch.Tensor) -> DocumentMask | None:
        if value.dim() < 2 or value.shape[-1] != value.shape[-2]:
            return None
        found = [self._get(arg) or self._constant(arg, value.shape[-1]) for arg in node.args[:2]]
        if None in found:
            return None
        one, other = found
        parts = [(one.documents, other.documents), (one.positions, other.positions)]
        if any(first and second and first != second for first, second in parts):
            return None
        batches = {mask.batch for mask in found} - {None}
        if len(batches) > 1:
            return None
        documents, positions = (first or second for first, second in parts)
        return DocumentMask(documents, positions, one.is_ordered or other.is_ordered, *batches)

    def _constant(self, node: object, tokens: int) -> DocumentMask | None:
        value = self._known(node)
        if value is None or value.dtype is not torch.bool:
            return None
        pattern = pattern_of(value, tokens, tokens)
        return {Pattern.ALL: DocumentMask(), Pattern.CAUSAL: DocumentMask(is_ordered=True)}.get(pattern)

    def _compared(self, query: object, key: object, value: torch.Tensor) -> tuple[fx.Node | None, int | None]:
        """Returns the integers that a comparison is about, and the dimension of the batch, as DocumentMask has it.

        An element of `query` belongs to a row of the mask `value`, and an element of `key` to a column.
        """
        one, other = self._places(query), self._places(key)
        tokens = value.shape[-1] if value.dim() > 1 else 0
        if one is None or other is None or one.source is not other.source or tokens < 2 or value.shape[-2] != tokens:
            return None, None
        if one.places.shape[-2:] != (tokens, 1) or other.places.shape[-2:] not in ((1, tokens), (tokens,)):
            return None, None
        rows, keys = one.places.squeeze(-1), other.places.squeeze(-2) if other.places.dim() > 1 else other.places
        leading = [dim for dim in range(rows.dim() - 1) if rows.shape[dim] > 1]
        if len(leading) > 1 or (leading and keys.shape != rows.shape) or keys.numel() != rows.numel():
            return None, None
        batch = leading[0] - rows.dim() - 1 if leading else None
        rows, keys = rows.reshape(-1, tokens), keys.reshape(-1, tokens)
        size = one.source.meta["val"].numel()
        if size % tokens:
            return None, None
        all_rows = torch.arange(size).reshape(-1, tokens)
        if len(all_rows) not in (1, len(rows)) or not torch.equal(rows, keys) or not torch.equal(rows, all_rows.expand_as(rows)):
            return None, None
        return one.source, batch

    def _hides(self, node: fx.Node) -> bool:
        """Returns whether numbers are 0 where a mask is true, and hide a key elsewhere."""
        seen, hidden = (self._number(arg) for arg in node.args[1:3])
        least = torch.finfo(node.meta["val"].dtype).min
        return seen == 0 and hidden is not None and hidden <= least

    def _number(self, arg: object) -> float | None:
        value = self._known(arg) if isinstance(arg, fx.Node) else arg
        if isinstance(value, torch.Tensor):
            return float(value) if value.numel() == 1 else None
        return float(value) if isinstance(value, (int, float)) else None


def _keeps_rows(before: torch.Size, after: torch.Size) -> bool:
    """Returns whether dimensions are as before, but for one of size 1 that is repeated."""
    added = len(after) - len(before)
    return added >= 0 and before[-2:] == after[-2:] and all(one in (1, other) for one, other in zip(before, after[added:]))


def _find(joint: ExportedProgram, wanted: set[fx.Node]) -> dict[fx.Node, DocumentMask]:
    """Returns those of the masks `wanted` that keep documents apart."""
    known = KnownValues(joint.graph, constants_of(joint), wanted)
    finder, needed = _Finder(known.get), with_ancestors(wanted)
    for node in joint.graph.nodes:
        if node in needed:
            finder.visit(node)
        known.visit(node)
    return {node: mask for node, mask in finder.found.items() if node in wanted and mask.is_whole}


def _arguments(node: fx.Node) -> dict[str, Any]:
    names = _FORWARD_ARGUMENTS if node.target is _FORWARD else _GRADIENT_ARGUMENTS
    return dict(zip(names, node.args)) | node.kwargs


def _is_suited(node: fx.Node, mask: DocumentMask) -> bool:
    """Returns whether the operator can do what a call of attention does under `mask`."""
    given = _arguments(node)
    if given.get("dropout_p") or given.get("is_causal"):
        return False
    batch, heads, tokens, _ = given["query"].meta["val"].shape
    rows = (mask.documents, mask.positions)
    sizes = {one.meta["val"].numel() for one in rows if one is not None}
    return mask.batch in (None, -4) and given["key"].meta["val"].shape[2] == tokens and sizes <= {tokens, batch * tokens}


def _forward_of(node: fx.Node) -> object:
    """Returns the call of attention whose results a call of its backward pass reads."""
    source: Any = _arguments(node)["logsumexp"]
    while isinstance(source, fx.Node) and source.target in (operator.getitem, _aten.detach.default, _aten.alias.default):
        source = source.args[0]
    return source


def _replace(node: fx.Node, mask: DocumentMask) -> None:
    given = _arguments(node)
    batch, _, tokens, _ = given["query"].meta["val"].shape
    with node.graph.inserting_before(node):
        rows = [_rows(node, one, (batch, tokens)) for one in (mask.documents, mask.positions)]
    names = _FORWARD_ARGUMENTS if node.target is _FORWARD else _GRADIENT_ARGUMENTS
    node.args = (*(given[name] for name in names if name not in ("dropout_p", "is_causal")), *rows)
    node.kwargs = {"scale": given.get("scale")}
    node.target = OPERATOR if node.target is _FORWARD else BACKWARD


def _rows(user: fx.Node, source: fx.Node | None, shape: tuple[int, int]) -> fx.Node | None:
    """Returns the node of [batch, tokens] integers that `user` reads."""
    made = source
    if made is not None and tuple(made.meta["val"].shape) != shape:
        for target, size in ((_aten.view.default, [-1, shape[1]]), (_aten.expand.default, list(shape))):
            value = target(made.meta["val"], size)
            made = user.graph.call_function(target, (made, size))
            made.meta = {**user.meta, "val": value}
    return made
