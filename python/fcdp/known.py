# SPDX-License-Identifier: Apache-2.0
"""Evaluates what a traced graph computes of constants alone, in the order of the graph, which may write in place."""

import operator
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from fcdp.torch_private import is_fake, is_random, mutated_arguments, operator_name, pytree


def constants_of(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """Returns the values of constants and non-persistent buffers that a program's graph has as inputs, on the CPU."""
    signature = program.graph_signature
    targets = dict(signature.inputs_to_lifted_tensor_constants)
    for name, buffer in signature.inputs_to_buffers.items():
        if buffer in signature.non_persistent_buffers:
            targets[name] = buffer
    values = {name: program.constants[target] for name, target in targets.items()}
    return {
        name: value.cpu()
        for name, value in values.items()
        if isinstance(value, torch.Tensor) and value.device.type != "meta" and not is_fake(value)
    }


class KnownValues:
    """The values of a graph's nodes that are the same in every step.

    Call `visit` for each node in order. Then the values of the nodes `wanted` are right at each place in the graph,
    though operations may write to them later. Other values exist only if a wanted value needs them, and values are
    freed after their last use.
    """

    def __init__(self, graph: fx.Graph, inputs: Mapping[str, torch.Tensor], wanted: Iterable[fx.Node]) -> None:
        """inputs: the known values of placeholders by name."""
        nodes = list(graph.nodes)
        self._needed = with_ancestors(wanted)
        changes = [(node, with_ancestors(changed_by(node))) for node in nodes if changed_by(node)]
        # A write may be to a view of a value, which has an ancestor in common with it.
        while more := [node for node, changed in changes if node not in self._needed and changed & self._needed]:
            self._needed |= with_ancestors(more)
        self._last_users: dict[fx.Node, fx.Node] = {}
        for node in reversed(nodes):
            for source in node.all_input_nodes:
                self._last_users.setdefault(source, node)
        # An input that the step changes has another value in the next step.
        varying = set().union(*(changed for _, changed in changes))
        placeholders = [node for node in nodes if node.op == "placeholder" and node in self._needed - varying]
        self._values: dict[fx.Node, Any] = {node: inputs[node.name] for node in placeholders if node.name in inputs}

    def get(self, node: object) -> torch.Tensor | None:
        """Returns the value of a node, or None if it is not known, not a tensor, or `node` is not a node."""
        value = self._values.get(node) if isinstance(node, fx.Node) else None
        return value if isinstance(value, torch.Tensor) else None

    def visit(self, node: fx.Node) -> None:
        if node in self._needed and node.op == "call_function":
            if _is_evaluable(node) and all(source in self._values for source in _operands(node)):
                self._values[node] = _evaluate(node, self._values)
            else:
                self._forget(changed_by(node))
        for source in node.all_input_nodes:
            if self._last_users[source] is node:
                self._values.pop(source, None)

    def _forget(self, changed: Collection[fx.Node]) -> None:
        """Removes the values that share memory with those of `changed`."""
        memory = {_memory(self._values[node]) for node in changed if node in self._values}
        self._values = {node: value for node, value in self._values.items() if _memory(value) not in memory}


def changed_by(node: fx.Node) -> list[fx.Node]:
    """Returns the arguments that an operation writes to. A call of a graph may write to all, if it writes at all."""
    if node.op != "call_function":
        return []
    if callee := callee_of(node):
        return node.all_input_nodes if any(changed_by(inner) for inner in callee.graph.nodes) else []
    return [arg for arg in mutated_arguments(node.target, node.args, node.kwargs) if isinstance(arg, fx.Node)]


def callee_of(node: fx.Node) -> fx.GraphModule | None:
    """Returns the graph that a node calls, as what ran under torch.no_grad or autocast, or None if it calls none."""
    owner = node.graph.owning_module
    found = [getattr(owner, arg.target, None) for arg in node.all_input_nodes if arg.op == "get_attr"]
    graphs = [module for module in found if isinstance(module, fx.GraphModule)]
    return graphs[0] if len(graphs) == 1 and node.op == "call_function" else None


def with_ancestors(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """Returns nodes, and all that they are computed of."""
    found: set[fx.Node] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += node.all_input_nodes
    return found


def _operands(node: fx.Node) -> list[fx.Node]:
    """Returns the inputs of a node without the graph that it calls."""
    return [source for source in node.all_input_nodes if source.op != "get_attr"]


def _calls(graph: fx.Graph) -> list[fx.Node]:
    return [node for node in graph.nodes if node.op == "call_function"]


def _is_evaluable(node: fx.Node) -> bool:
    if callee := callee_of(node):
        is_plain = node.target is torch.ops.higher_order.wrap_with_set_grad_enabled
        return is_plain and all(map(_is_evaluable, _calls(callee.graph)))
    is_aten = operator_name(node.target).startswith("aten::")
    return node.target is operator.getitem or (is_aten and not is_random(node.target))


def _evaluate(node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
    """Runs the operation of a node on the CPU."""
    if callee := callee_of(node):
        given = [values[source] for source in _operands(node)]
        inner = dict(zip(callee.graph.find_nodes(op="placeholder"), given, strict=True))
        for call in _calls(callee.graph):
            inner[call] = _evaluate(call, inner)
        return fx.map_arg(callee.graph.output_node().args[0], inner.__getitem__)
    args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
    args, kwargs = pytree.tree_map_only(torch.device, lambda _: torch.device("cpu"), (args, kwargs))
    return node.target(*args, **kwargs)


def _memory(value: Any) -> int | None:
    return value.untyped_storage().data_ptr() if isinstance(value, torch.Tensor) else None
