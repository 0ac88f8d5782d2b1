# SPDX-License-Identifier: Apache-2.0
"""Builds the joint forward and backward graph, with eager's kernels and a label on every node.

torch.export's own joint export decomposes fused attention into operators whose second output is not the one that the
recorded backward pass reads, so its gradients are silently wrong. Therefore nothing is decomposed here.
"""

import itertools
from collections.abc import Collection

from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, OutputKind, TensorArgument

from fcdp.call import INPUT_PREFIX
from fcdp.errors import ExportError
from fcdp.flat import PRESERVED, Flattening
from fcdp.stand_in import stand_in_of
from fcdp.strides import have_believed_strides
from fcdp.torch_private import (
    copy_of,
    decompose_to_joint,
    flat_graph_by,
    inputs_analysed_by,
    operator_name,
    traced_by,
    with_graph,
    without_code,
    without_tensor_meta,
)

# Metadata that the label replaces. It is half of the archive's JSON and contains paths and ids of this process.
_IN_THE_LABEL = ("stack_trace", "nn_module_stack", "from_node", "torch_fn")


def joint_program(forward: ExportedProgram) -> ExportedProgram:
    """Returns the program that computes the loss (output 0 of `forward`) and the gradient of every trained parameter.
    """
    flattening = Flattening()
    with (
        traced_by(flattening.labelled),
        flat_graph_by(flattening.flat_graph),
        inputs_analysed_by(stand_in_of(forward)),
        without_code(),
        without_tensor_meta(),
    ):
        joint = decompose_to_joint(forward, preserved=PRESERVED)
        graph_module, signature = copy_of(joint, join_detach=True)
        _drop_checks(graph_module.graph)
        have_believed_strides(graph_module.graph)
        for node in graph_module.graph.nodes:
            for key in _IN_THE_LABEL:
                node.meta.pop(key, None)
            if node.op == "placeholder":
                node.meta.pop("custom", None)
        _strip_input_prefix(graph_module, signature)
        program = with_graph(joint, graph_module, signature)
    program.graph_module.recompile()
    return program


def _drop_checks(graph: fx.Graph) -> None:
    """Drops the checks of types and shapes, which hold for every step, and what was computed for them alone."""
    for node in graph.nodes:
        if operator_name(node.target) == "aten::_assert_tensor_metadata":
            graph.erase_node(node)
    graph.eliminate_dead_code()


def changed_buffers(joint: ExportedProgram) -> list[str]:
    """Returns the names of the buffers that a step changes."""
    return list(joint.graph_signature.buffers_to_mutate.values())


def loss_program(joint: ExportedProgram) -> ExportedProgram:
    """Returns the program that computes the loss of `joint` alone.

    Raises ExportError if it changes a buffer.
    """
    graph_module, signature = copy_of(joint)
    for spec in signature.output_specs:
        if spec.kind is OutputKind.BUFFER_MUTATION:
            raise ExportError(
                f"the model changes its buffer '{spec.target}', which an evaluation may not: call model.eval() before"
            )
    output = graph_module.graph.output_node()
    kept = [spec.kind is OutputKind.LOSS_OUTPUT for spec in signature.output_specs]
    output.args = (tuple(itertools.compress(output.args[0], kept)),)
    signature.output_specs = list(itertools.compress(signature.output_specs, kept))
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()
    return with_graph(joint, graph_module, signature)


def _strip_input_prefix(graph_module: fx.GraphModule, signature: ExportGraphSignature) -> None:
    """Gives inputs the names that the user gave them, and another name to each operation that has one of these."""
    nodes = {node.name: node for node in graph_module.graph.nodes}
    renamed: dict[str, str] = {}
    for name in [name for name in nodes if name.startswith(INPUT_PREFIX)]:
        wanted = name.removeprefix(INPUT_PREFIX)
        if wanted in nodes:
            renamed[wanted] = _free_name(wanted, nodes)
            nodes[renamed[wanted]] = nodes[wanted]
        renamed[name] = wanted
        nodes[wanted] = nodes[name]
    for node in graph_module.graph.nodes:
        if node.name in renamed:
            node.name = renamed[node.name]
            if node.op == "placeholder":
                node.target = node.name
    for spec in [*signature.input_specs, *signature.output_specs]:
        if isinstance(spec.arg, TensorArgument):
            spec.arg.name = renamed.get(spec.arg.name, spec.arg.name)
    graph_module.recompile()


def _free_name(name: str, taken: Collection[str]) -> str:
    return next(free for number in itertools.count(1) if (free := f"{name}_{number}") not in taken)


def label_coverage(joint: ExportedProgram) -> tuple[int, int]:
    """Returns the numbers of labelled operation nodes and of all operation nodes."""
    nodes = [node for node in joint.graph.nodes if node.op == "call_function"]
    return sum("custom" in node.meta for node in nodes), len(nodes)
