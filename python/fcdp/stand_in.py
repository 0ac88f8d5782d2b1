# SPDX-License-Identifier: Apache-2.0
"""Stands for a forward pass where torch.export only looks at what a pass does to its inputs, and at what it returns.

Before it traces the joint graph, torch.export runs the forward pass for that. The answer is known for a graph that
writes to nothing and returns one new tensor.
"""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from fcdp.torch_private import arguments_of, is_functional, is_only_context, is_traced_as_itself, is_view


# It is composed of others, and its result is new.
_CROSS_ENTROPY = torch.ops.aten.cross_entropy_loss.default


def stand_in_of(forward: ExportedProgram) -> Callable[..., list[torch.Tensor]] | None:
    """Returns a function of the flat inputs that does with them what the program does, or None if that is not known."""
    modules = [module for module in forward.graph_module.modules() if isinstance(module, fx.GraphModule)]
    targets = {node.target for module in modules for node in module.graph.nodes if node.op == "call_function"}
    outputs = forward.graph.output_node().args[0]
    if len(outputs) != 1 or not all(is_only_context(target) or _writes_nothing(target) for target in targets):
        return None
    loss = outputs[0].meta.get("val") if isinstance(outputs[0], fx.Node) else None
    if not isinstance(loss, torch.Tensor) or loss.dim() != 0 or not _is_new(outputs[0].target):
        return None

    def stand_in(*inputs: Any) -> list[torch.Tensor]:
        trained = next(value for value in inputs if isinstance(value, torch.Tensor) and value.requires_grad)
        return [trained.sum(dtype=loss.dtype).to(loss.device)]

    return stand_in


def _writes_nothing(target: Any) -> bool:
    if target is operator.getitem:
        return True
    # The schemas of norms do not say that they write to their statistics.
    return is_functional(target) and not any("running" in name or name == "noise" for name in arguments_of(target))


def _is_new(target: Any) -> bool:
    """Returns whether an operator's result is a tensor in memory of its own."""
    return target is _CROSS_ENTROPY or (is_traced_as_itself(target) and not is_view(target))
