# SPDX-License-Identifier: Apache-2.0
"""Keeps the dropout between the layers of LSTM, GRU and RNN, and says what to do about packed sequences.

PyTorch's decomposition of these operators, which every trace takes, leaves out the dropout. So an operator of several
layers is replaced by one of a single layer for each, with a dropout between two of them, as its kernels compute it.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.nn.utils.rnn import PackedSequence

_aten = torch.ops.aten
_LSTM = _aten.lstm.input
_RECURRENT = {_LSTM, _aten.gru.input, _aten.rnn_tanh.input, _aten.rnn_relu.input}

PAD_INSTEAD = (
    "the model packs sequences (torch.nn.utils.rnn), whose shapes depend on the lengths, and a compiled step has fixed shapes: pad "
    "instead, run the module on the padded tensor, and multiply the loss by a mask"
)


def is_of_packed(error: BaseException) -> bool:
    """Returns whether an error is of code that works on a PackedSequence."""
    if "_pack_padded_sequence" in str(error):
        return True
    trace = error.__traceback__
    while trace is not None:
        if any(isinstance(value, PackedSequence) for value in trace.tb_frame.f_locals.values()):
            return True
        trace = trace.tb_next
    return False


def split_layers(forward: ExportedProgram) -> None:
    """Splits each such operator with dropout in a program of torch.export.export, in which they are not decomposed."""
    for module in forward.graph_module.modules():
        if isinstance(module, fx.GraphModule):
            for node in list(module.graph.nodes):
                if node.op == "call_function" and node.target in _RECURRENT and _drops(node):
                    _split(module.graph, node)
            module.recompile()


def _drops(node: fx.Node) -> bool:
    *_, layers, dropout, train, _, _ = node.args
    return layers > 1 and dropout > 0 and train


def _split(graph: fx.Graph, node: fx.Node) -> None:
    given, hidden, weights, has_biases, layers, dropout, train, bidirectional, batch_first = node.args
    add = _adder(graph, node)
    directions = 2 if bidirectional else 1
    initial = list(hidden) if node.target is _LSTM else [hidden]
    output = add(_aten.transpose.int, given, 0, 1) if batch_first else given
    found: list[list[fx.Node]] = []
    for layer, own in enumerate(_of_layers(weights, layers)):
        if layer:
            output = add(_aten.dropout.default, output, dropout, train)
        part = [add(_aten.slice.Tensor, one, 0, layer * directions, (layer + 1) * directions) for one in initial]
        start = part if node.target is _LSTM else part[0]
        call = add(node.target, output, start, own, has_biases, 1, 0.0, train, bidirectional, False)
        output, *last = [add(operator.getitem, call, index) for index in range(1 + len(initial))]
        found.append(last)
    output = add(_aten.transpose.int, output, 0, 1) if batch_first else output
    last = [add(_aten.cat.default, list(parts)) for parts in zip(*found)]
    for user in list(node.users):
        user.replace_all_uses_with([output, *last][user.args[1]])
        graph.erase_node(user)
    graph.erase_node(node)


def _of_layers(weights: Sequence[fx.Node], layers: int) -> list[list[fx.Node]]:
    count = len(weights) // layers
    return [list(weights[layer * count : (layer + 1) * count]) for layer in range(layers)]


def _adder(graph: fx.Graph, node: fx.Node) -> Callable[..., fx.Node]:
    """Returns what adds a call in front of `node`, with its labels and with its own result as "val"."""
    kept = {key: value for key, value in node.meta.items() if key != "val"}

    def add(target: Any, *args: Any) -> fx.Node:
        with graph.inserting_before(node):
            call = graph.call_function(target, args)
        values = fx.map_arg(args, lambda one: one.meta["val"])
        call.meta = {**kept, "val": target(*values)}
        return call

    return add
