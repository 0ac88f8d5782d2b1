# SPDX-License-Identifier: Apache-2.0
"""Mends operators whose results lie in memory in another order than torch.export believes."""

import operator

import torch
from torch import fx

_aten = torch.ops.aten

# torch.export takes the strides of their results from a description in Python, and the operator itself has others
# unless its operands are contiguous, or, for these, lie in memory alike. A later aten.view of the result may then not
# be possible.
STRIDES_OF_ANOTHER_OPERAND = {
    _aten.hardsigmoid_backward.default,
    _aten.hardswish_backward.default,
    _aten.hardtanh_backward.default,
    _aten.logit_backward.default,
    _aten.softplus_backward.default,
}
# For these it is enough that all operands are in channels-last order.
STRIDES_OF_IMAGES = {
    _aten._native_batch_norm_legit.no_stats,
    _aten._native_batch_norm_legit_functional.default,
    _aten.native_batch_norm_backward.default,
}
# For these nothing else is enough.
STRIDES_OF_THEIR_OWN = {
    _aten._log_softmax_backward_data.default,
    _aten.channel_shuffle.default,
    _aten.copysign.Tensor,
    _aten.div.Tensor_mode,
    _aten.floor_divide.default,
    _aten.huber_loss_backward.default,
    _aten.log_sigmoid_forward.default,
    _aten.max_unpool2d.default,
    _aten.mse_loss_backward.default,
    _aten.native_dropout_backward.default,
    _aten.native_layer_norm_backward.default,
    _aten.pow.Scalar,
    _aten.replication_pad2d_backward.default,
    _aten.smooth_l1_loss_backward.default,
    _aten.xlogy.Tensor,
}


def have_believed_strides(graph: fx.Graph) -> None:
    """Copies results of these operators to memory that lies as torch.export believes, where it may be wrong."""
    for node in list(graph.nodes):
        if node.op == "call_function" and not _is_right(node):
            for result in _results(node):
                _copy(graph, result)


def _is_right(node: fx.Node) -> bool:
    operands = [value for value in (operand.meta.get("val") for operand in node.all_input_nodes) if _has_order(value)]
    if all(operand.is_contiguous() for operand in operands):
        return True
    if node.target in STRIDES_OF_ANOTHER_OPERAND:
        return len({operand.stride() for operand in operands}) == 1
    if node.target in STRIDES_OF_IMAGES:
        return all(operand.dim() == 4 and operand.is_contiguous(memory_format=torch.channels_last) for operand in operands)
    return node.target not in STRIDES_OF_THEIR_OWN


def _has_order(value: object) -> bool:
    """The program is refused where a size is not a number, for it depends on values of a tensor."""
    return isinstance(value, torch.Tensor) and value.dim() > 1 and all(isinstance(size, int) for size in value.shape)


def _results(node: fx.Node) -> list[fx.Node]:
    """Returns the nodes of its results whose elements may lie in several orders."""
    nodes = [node, *(user for user in node.users if user.target is operator.getitem)]
    return [one for one in nodes if _has_order(one.meta.get("val"))]


def _copy(graph: fx.Graph, node: fx.Node) -> None:
    """Has the users of `node` read a copy with the strides that they believe it to have."""
    strides = node.meta["val"].stride()
    order = sorted(range(len(strides)), key=lambda dimension: -strides[dimension])
    back = [order.index(dimension) for dimension in range(len(order))]
    calls = [(_aten.permute.default, (order,)), (_aten.clone.default, ()), (_aten.permute.default, (back,))]
    made = [node]
    for target, args in calls if order != sorted(order) else calls[1:2]:
        kwargs = {"memory_format": torch.contiguous_format} if target is _aten.clone.default else {}
        with graph.inserting_after(made[-1]):
            call = graph.call_function(target, (made[-1], *args), kwargs)
        call.meta = {**node.meta, "val": target(made[-1].meta["val"], *args, **kwargs)}
        made.append(call)
    node.replace_all_uses_with(made[-1], delete_user_cb=lambda user: user is not made[1])
