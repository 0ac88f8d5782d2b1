# SPDX-License-Identifier: Apache-2.0
"""Mends operators whose results lie in memory in another order than torch.export believes."""

import torch
from torch import fx

_aten = torch.ops.aten

# torch.export takes the strides of their results from a decomposition in Python. The operator itself follows its first
# operand. If the operands' strides differ, a later aten.view of the result may not be possible.
STRIDES_OF_ANOTHER_OPERAND = {
    _aten._log_softmax_backward_data.default,
    _aten.hardsigmoid_backward.default,
    _aten.hardswish_backward.default,
    _aten.logit_backward.default,
    _aten.mse_loss_backward.default,
    _aten.native_dropout_backward.default,
    _aten.smooth_l1_loss_backward.default,
    _aten.softplus_backward.default,
}


def have_believed_strides(graph: fx.Graph) -> None:
    """Copies results of these operators to contiguous memory, where torch.export believes that they are contiguous."""
    for node in list(graph.nodes):
        if node.target not in STRIDES_OF_ANOTHER_OPERAND or not node.meta["val"].is_contiguous():
            continue
        strides = {operand.meta["val"].stride() for operand in node.all_input_nodes if operand.meta["val"].dim()}
        if len(strides) == 1:
            continue
        with graph.inserting_after(node):
            copy = graph.call_function(_aten.clone.default, (node,), {"memory_format": torch.contiguous_format})
        copy.meta = dict(node.meta)
        node.replace_all_uses_with(copy, delete_user_cb=lambda user, copy=copy: user is not copy)
