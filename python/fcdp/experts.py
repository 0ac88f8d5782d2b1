# SPDX-License-Identifier: Apache-2.0
"""Has experts of Transformers multiplied by PyTorch's grouped product in all types, as in eager PyTorch.

Eager models call torch.nn.functional.grouped_mm. While they are traced, Transformers replaces it by a loop in Python,
as an operator of its own, unless weights are in bfloat16, because PyTorch describes the grouped product of tensors
without values for bfloat16 alone. The product itself takes other types, too.
"""

import contextlib
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from fcdp.torch_private import operator_name, operators_run_by

_aten = torch.ops.aten
_PRODUCT = _aten._grouped_mm.default
_LOOP = "transformers::grouped_mm_fallback"
_LOOP_GRADIENTS = "transformers::grouped_mm_fallback_backward"


def group_products(joint: ExportedProgram) -> None:
    """Puts PyTorch's grouped product in place of Transformers' loop over experts, forward and backward."""
    graph = joint.graph
    for node in list(graph.nodes):
        name = operator_name(node.target)
        if name == _LOOP:
            with graph.inserting_before(node):
                _replace(joint, node, _product(node, *node.args))
        elif name == _LOOP_GRADIENTS:
            _replace_gradients(joint, node)
            graph.erase_node(node)
    joint.graph_module.recompile()


def _replace(joint: ExportedProgram, node: fx.Node, made: fx.Node) -> None:
    node.replace_all_uses_with(made)
    joint.graph_signature.replace_all_uses(node.name, made.name)
    joint.graph.erase_node(node)


def _replace_gradients(joint: ExportedProgram, node: fx.Node) -> None:
    rows, weight, ends, gradient = node.args
    for result in list(node.users):
        if result.target is not operator.getitem:
            raise ValueError(f"expected a result of {node.name}, got {result.target}")
        with node.graph.inserting_before(result):
            if result.args[1] == 0:
                made = _product(node, gradient, _transposed(node, weight), ends)
            else:
                made = _product(node, _transposed(node, rows), gradient, ends)
        _replace(joint, result, made)


def _product(place: fx.Node, left: Any, right: Any, ends: Any) -> fx.Node:
    """Adds a product at the insertion point, with the labels of `place`."""
    if ends.meta["val"].dtype != torch.int32:
        ends = _add(place, _aten._to_copy.default, (ends,), {"dtype": torch.int32}, ends.meta["val"].to(torch.int32))
    value = product_without_values(*(one.meta["val"] for one in (left, right, ends)))
    return _add(place, _PRODUCT, (left, right, ends), {}, value)


def _transposed(place: fx.Node, matrix: Any) -> fx.Node:
    return _add(place, _aten.transpose.int, (matrix, -2, -1), {}, matrix.meta["val"].transpose(-2, -1))


def _add(place: fx.Node, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], value: torch.Tensor) -> fx.Node:
    made = place.graph.call_function(target, args, kwargs)
    made.meta = {**place.meta, "val": value}
    return made


def product_without_values(left: torch.Tensor, right: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Returns a tensor that lies in memory as the grouped product of three tensors does, whose rows are aligned.

    left, right: [rows, inner] and [groups, inner, columns], or [rows, inner] and [inner, columns] with groups of the
        inner dimension, or [groups, rows, inner] and [inner, columns] with groups of columns.
    ends: the end of each group.
    """
    are_flat = left.dim() == 2 and right.dim() == 2
    shape = [*([ends.shape[0]] if are_flat else []), left.shape[-2], right.shape[-1]]
    aligned = 16 // left.element_size()
    row = -(-shape[-1] // aligned) * aligned
    strides = [*([shape[-2] * row] if are_flat else []), row, 1]
    return left.new_empty_strided(shape, strides)


@contextlib.contextmanager
def grouped_products_of_all_types() -> Iterator[None]:
    """Until the context ends, tensors without values have grouped products in types other than bfloat16, too."""

    def run(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target is _PRODUCT and args[0].dtype != torch.bfloat16 and len(args) + len(kwargs) == 3:
            return product_without_values(*args[:2], args[2] if len(args) > 2 else kwargs["offs"])
        return target(*args, **kwargs)

    with operators_run_by(run):
        yield
