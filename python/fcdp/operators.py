# SPDX-License-Identifier: Apache-2.0
"""Refuses operators and results that a compiled step cannot have.

It calls operators of libtorch on tensors of fixed shapes.
"""

import torch
from torch import fx
from torch.export import ExportedProgram

from fcdp.errors import ExportError
from fcdp.torch_private import is_higher_order, operator_name, pytree


def check_operators(joint: ExportedProgram) -> None:
    """Raises ExportError for the first operator that a compiled step cannot run, and says what to use instead."""
    for node in joint.graph.nodes:
        if node.op != "call_function":
            continue
        # Functions of Python, such as getitem, have no name.
        name = operator_name(node.target)
        if is_higher_order(node.target):
            raise ExportError(
                f"the step calls '{node.target}'{_place(node)}, which chooses or repeats a part of it at run time: "
                "use torch.where, or a loop of fixed length"
            )
        if name and not name.startswith(("aten::", "fcdp::")):
            raise ExportError(
                f"the step calls '{name}'{_place(node)}, which is not part of PyTorch's own library, "
                "and the runtime has no other; choose the setting of the model that uses PyTorch's own operators"
            )
        for value in pytree.tree_leaves(node.meta.get("val")):
            _check_result(node, name or "an operator", value)


def _check_result(node: fx.Node, name: str, value: object) -> None:
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise ExportError(
            f"{name}{_place(node)} makes a number of Python of a tensor's value, which a compiled step cannot: "
            "keep it a tensor, without .item(), .tolist(), int() or float()"
        )
    if not isinstance(value, torch.Tensor):
        return
    if value.layout != torch.strided:
        raise ExportError(f"the result of {name}{_place(node)} is sparse, and a compiled step has dense tensors alone")
    if any(isinstance(size, torch.SymInt) for size in value.shape):
        raise ExportError(
            f"the shape of the result of {name}{_place(node)} depends on values of a tensor, and a compiled step has "
            "fixed shapes: use torch.where, or multiply by a mask"
        )


def _place(node: fx.Node) -> str:
    """Returns where the model calls it, as " (model.py:12, in module 'layers.0')", or "" if that is unknown."""
    label = node.meta.get("custom", {})
    module = label.get("module") and f"in module '{label['module']}'"
    known = [part for part in (label.get("source"), module) if part]
    return f" ({', '.join(known)})" if known else ""

