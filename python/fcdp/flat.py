# SPDX-License-Identifier: Apache-2.0
"""Flattens the inputs and outputs of a joint graph, and keeps its labels.

torch.export traces the joint graph of forward and backward pass, and then traces that graph again to flatten it. The
second trace takes a quarter of the time and, for nearly all graphs, records the calls of the first one. It is left out
for these.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.fx import traceback as fx_traceback

from fcdp.labels import label
from fcdp.torch_private import Trace, is_traced_as_itself, operator_name, traced_name

# The only composite operator that autograd decomposes and eager does not.
PRESERVED = [torch.ops.aten.silu_backward.default]
# It has no result.
_CHECK = "aten::_assert_tensor_metadata"


class Flattening:
    """Labels the first of the two traces, and makes the flat graph of it."""

    def __init__(self) -> None:
        self._joint: fx.GraphModule | None = None

    def labelled(self, traced: Trace) -> Trace:
        """Preserves metadata in the second trace.

        The first trace knows modules and lines. The second one runs generated code, which knows neither. Interpreting
        the first graph instead copies each node's metadata.
        """

        def trace(*args: Any, **kwargs: Any) -> tuple[Callable[..., Any], Any, Any, Any]:
            graph_module, metadata, in_spec, out_spec = traced(*args, **kwargs)
            for node in graph_module.graph.nodes:
                node.meta["custom"] = label(node.meta)
            self._joint = graph_module

            def run(*inputs: Any) -> Any:
                with fx_traceback.preserve_node_meta():
                    return fx.Interpreter(graph_module).run(*inputs)

            return run, metadata, in_spec, out_spec

        return trace

    def flat_graph(self, inputs: Sequence[Any]) -> fx.GraphModule | None:
        """Returns what the second trace would, or None if it may differ from the first one."""
        return None if self._joint is None else _flat_graph(self._joint.graph, inputs)


def _flat_graph(joint: fx.Graph, inputs: Sequence[Any]) -> fx.GraphModule | None:
    placeholders = joint.find_nodes(op="placeholder")[: len(inputs)]
    outputs = _flat_outputs(joint, inputs)
    calls = [node for node in joint.nodes if node.op not in ("placeholder", "output")]
    if outputs is None or not all(isinstance(value, torch.Tensor) for value in inputs) or not all(map(_is_kept, calls)):
        return None
    flat = fx.Graph()
    made: dict[fx.Node, fx.Node] = {}
    for number, node in enumerate(placeholders):
        made[node] = flat.placeholder(f"arg{number}_1")
        made[node].meta = _kept(node)
    for node in calls:
        # All elements of a result are read where it is made.
        if node.target is not operator.getitem:
            args, kwargs = fx.map_arg((node.args, node.kwargs), made.__getitem__)
            call = flat.create_node("call_function", node.target, args, kwargs, traced_name(flat, node.target))
            call.meta = _kept(node)
            made[node] = call
            _read_elements(node, made)
    flat.output(tuple(made[node] for node in outputs))
    flat.eliminate_dead_code()
    return fx.GraphModule(nn.Module(), flat)


def _flat_outputs(joint: fx.Graph, inputs: Sequence[Any]) -> list[fx.Node] | None:
    """Returns the outputs of the forward pass and the gradients, or None if one of them is missing."""
    found = list(joint.output_node().args[0])
    forward, gradients = found[: -len(inputs)], found[-len(inputs) :]
    wanted = [isinstance(value, torch.Tensor) and value.requires_grad for value in inputs]
    if any(isinstance(gradient, fx.Node) != is_wanted for gradient, is_wanted in zip(gradients, wanted)):
        return None
    outputs = [*forward, *(gradient for gradient in gradients if gradient is not None)]
    return outputs if all(isinstance(node, fx.Node) for node in outputs) else None


def _is_kept(node: fx.Node) -> bool:
    """Returns whether a trace of the call would record it as it is."""
    if operator_name(node.target) == _CHECK:
        return True
    if node.op != "call_function" or not _has_sizes(node.meta.get("val")):
        return False
    if node.target is operator.getitem:
        return node.args[0].target is not operator.getitem
    # The two traces differ in the offsets of what stands for a write to a part of a tensor.
    is_write = "_scatter" in operator_name(node.target)
    return node.target in PRESERVED or (is_traced_as_itself(node.target) and not is_write)


def _has_sizes(value: object) -> bool:
    """Returns whether a result is of tensors whose sizes are numbers."""
    if isinstance(value, (list, tuple)):
        return all(one is None or (isinstance(one, torch.Tensor) and _has_sizes(one)) for one in value)
    return isinstance(value, torch.Tensor) and all(isinstance(size, int) for size in value.shape)


def _kept(node: fx.Node) -> dict[str, Any]:
    return {key: node.meta[key] for key in ("val", "custom") if key in node.meta}


def _read_elements(node: fx.Node, made: dict[fx.Node, fx.Node]) -> None:
    """Adds a node for each element of a result that has several, as a trace does, and notes those that are read."""
    values = node.meta.get("val")
    if not isinstance(values, (list, tuple)):
        return
    call = made[node]
    elements = [call.graph.call_function(operator.getitem, (call, index)) for index in range(len(values))]
    for element, value in zip(elements, values):
        element.meta = {**call.meta, "val": value}
    for user in node.users:
        made[user] = elements[user.args[1]]
        made[user].meta = _kept(user)
