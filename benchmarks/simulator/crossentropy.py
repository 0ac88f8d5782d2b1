# SPDX-License-Identifier: Apache-2.0
"""The last linear layer and the cross-entropy as fused kernels compute them, which hold the logits less often than
PyTorch's.

All have the values and gradients of F.cross_entropy. The gradient of the logits is the softmax, less one at each label.
The one is subtracted in the products with the labels' rows of the matrix, so no pass over the logits is needed for it.
"""

from typing import Any

import torch
import torch.nn.functional as F


class LogSumExp(torch.autograd.Function):
    """The logarithm of the sum of exponentials of each row, whose backward pass reads the row and writes its gradient.
    """

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(logits)
        return torch.logsumexp(logits, -1)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (logits,) = ctx.saved_tensors
        return torch.softmax(logits, -1) * gradient.unsqueeze(-1)


def fused_loss(x: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Returns the mean cross-entropy of `x @ weight.T`, of which the backward pass needs the logits and no softmax
    beside them.

    So does the loss of FlashAttention (xentropy).
    """
    picked = (x * F.embedding(labels, weight)).sum(-1)
    return (LogSumExp.apply(F.linear(x, weight)) - picked).float().mean()


class ChunkedLoss(torch.autograd.Function):
    """Returns the mean cross-entropy of `x @ weight.T`, for `x` of [tokens, width] and labels of [tokens].

    No more than the logits of one chunk of tokens exist at once. The forward pass computes the gradients of the hidden
    states and of the matrix, and the backward pass only passes these on. So do Liger (arXiv 2410.10989) and llmq.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, chunks: int) -> torch.Tensor:
        tokens = x.shape[0]
        losses, hidden, matrix = [], [], None
        for part, targets in zip(x.chunk(chunks), labels.chunk(chunks)):
            shares = torch.softmax(part @ weight.t(), -1)
            losses.append(shares.gather(1, targets.unsqueeze(1)).float().log().sum())
            hidden.append(shares @ weight)
            part = part / tokens
            matrix = shares.t() @ part if matrix is None else torch.addmm(matrix, shares.t(), part)
        ctx.save_for_backward((torch.cat(hidden) - weight[labels]) / tokens, matrix.index_add(0, labels, x / tokens, alpha=-1))
        return -torch.stack(losses).sum() / tokens

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        hidden, matrix = ctx.saved_tensors
        return hidden * gradient.to(hidden.dtype), matrix * gradient.to(matrix.dtype), None, None


def chunked_loss(x: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, chunks: int) -> torch.Tensor:
    return ChunkedLoss.apply(x.flatten(0, -2), weight, labels.flatten(), chunks)
