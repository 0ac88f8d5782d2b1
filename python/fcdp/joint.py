# SPDX-License-Identifier: Apache-2.0
"""Builds the joint forward and backward graph, with eager's kernels and a label on every node.

torch.export's own joint export decomposes fused attention into operators whose second output is not the one that the
recorded backward pass reads, so its gradients are silently wrong. Therefore nothing is decomposed here.
"""

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from torch import fx
from torch._export.utils import _special_op_to_preserve_cia
from torch._functorch import aot_autograd
from torch.export import ExportedProgram
from torch.export.experimental import _copy_graph_module_and_signature, _remove_detach_pass
from torch.export.exported_program import _decompose_exported_program
from torch.export.graph_signature import ExportGraphSignature, OutputKind, TensorArgument
from torch.fx import traceback as fx_traceback

from fcdp.call import INPUT_PREFIX
from fcdp.errors import ExportError
from fcdp.labels import label
from fcdp.strides import have_believed_strides

# Metadata that the label replaces. It is half of the archive's JSON and contains paths and ids of this process.
_IN_THE_LABEL = ("stack_trace", "nn_module_stack", "from_node", "torch_fn")


def joint_program(forward: ExportedProgram) -> ExportedProgram:
    """Returns the program that computes the loss (output 0 of `forward`) and the gradient of every trained parameter."""
    with _labelled_retrace():
        joint = _decompose_exported_program(
            forward,
            # The only composite operator that autograd decomposes and eager does not.
            cia_to_decomp={torch.ops.aten.silu_backward.default: _special_op_to_preserve_cia},
            python_decomp_table={},
            joint_loss_index=0,
            decompose_custom_triton_ops=False,
        )
    graph_module, signature = _copy_graph_module_and_signature(joint)
    _remove_detach_pass(graph_module, signature)
    have_believed_strides(graph_module.graph)
    for node in graph_module.graph.nodes:
        for key in _IN_THE_LABEL:
            node.meta.pop(key, None)
        if node.op == "placeholder":
            node.meta.pop("custom", None)
    _strip_input_prefix(graph_module, signature)
    return joint._update(graph_module, signature)


def loss_program(joint: ExportedProgram) -> ExportedProgram:
    """Returns the program that computes the loss of `joint` alone.

    Raises ExportError if it changes a buffer.
    """
    graph_module, signature = _copy_graph_module_and_signature(joint)
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
    return joint._update(graph_module, signature)


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


@contextlib.contextmanager
def _labelled_retrace() -> Iterator[None]:
    """Preserves metadata in the second of the two traces that aot_export_module makes.

    The first trace knows modules and lines. The second one runs generated code, which knows neither. Interpreting the
    first graph instead copies each node's metadata.
    """
    traced = aot_autograd._aot_export_function

    def trace(*args: Any, **kwargs: Any) -> tuple[Callable[..., Any], Any, Any, Any]:
        graph_module, metadata, in_spec, out_spec = traced(*args, **kwargs)
        for node in graph_module.graph.nodes:
            node.meta["custom"] = label(node.meta)

        def run(*inputs: Any) -> Any:
            with fx_traceback.preserve_node_meta():
                return fx.Interpreter(graph_module).run(*inputs)

        return run, metadata, in_spec, out_spec

    aot_autograd._aot_export_function = trace
    try:
        yield
    finally:
        aot_autograd._aot_export_function = traced
