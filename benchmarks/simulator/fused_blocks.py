# SPDX-License-Identifier: Apache-2.0
"""Blocks of Llama in the kernels of engines and libraries, which read and write less than PyTorch's operators.

For simulation only: kernels that compute something else stand for kernels that access the same bytes. A layer norm and
a product with the cosines do so already where `fused` is given, and here a gate without its sigmoid linear unit.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from llama import Linear, Llama, RmsNorm

attend = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
attend_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class GroupedAttention(torch.autograd.Function):
    """Causal attention that does not repeat keys and values. All are [batch, sequence, heads, head width].

    The operator is that of the CPU, whose kernel needs as many keys as queries. Its gradients of keys and values are as
    many as queries, so those that are too many are cut off.
    """

    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        result, sums = attend(*(part.transpose(1, 2) for part in (query, key, value)), 0.0, True)
        ctx.save_for_backward(query, key, value, result, sums)
        return result.transpose(1, 2)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, ...]:
        *parts, result, sums = ctx.saved_tensors
        operands = [part.transpose(1, 2) for part in parts]
        gradients = attend_backward(gradient.transpose(1, 2), *operands, result, sums, 0.0, True)
        return tuple(found.transpose(1, 2)[:, :, : part.shape[2]] for found, part in zip(gradients, parts))


def make_cosines(block: nn.Module, sequence: int, head: int) -> None:
    block.register_buffer("cos", torch.zeros(sequence, 1, head, dtype=torch.bfloat16), persistent=False)


class PackedBlock(nn.Module):
    """Query, key and value come from one product and stay in one tensor.

    So do gate and up. llmq computes blocks like this.
    """

    def __init__(self, shape: Llama, sequence: int) -> None:
        super().__init__()
        self.parts = [shape.heads, shape.key_heads or shape.heads, shape.key_heads or shape.heads]
        self.norm1, self.norm2 = RmsNorm(shape.width, True), RmsNorm(shape.width, True)
        self.qkv = Linear(shape.width, sum(self.parts) * shape.head, shape.bias, 0)
        self.out = Linear(shape.heads * shape.head, shape.width, False, 0)
        self.up = Linear(shape.width, 2 * shape.inner, False, 0)
        self.down = Linear(shape.inner, shape.width, False, 0)
        make_cosines(self, sequence, shape.head)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        packed = self.qkv(self.norm1(x)).unflatten(-1, (sum(self.parts), -1)) * self.cos
        x = x + self.out(GroupedAttention.apply(*packed.split(self.parts, 2)).flatten(-2))
        return x + self.down(F.glu(self.up(self.norm2(x))))


class LigerBlock(nn.Module):
    """Transformers' block with Liger's kernels and FlashAttention."""

    def __init__(self, shape: Llama, sequence: int) -> None:
        super().__init__()
        self.head = shape.head
        outputs, keys = shape.heads * shape.head, (shape.key_heads or shape.heads) * shape.head
        self.norm1, self.norm2 = RmsNorm(shape.width, True), RmsNorm(shape.width, True)
        self.q, self.k, self.v = (Linear(shape.width, size, shape.bias, 0) for size in (outputs, keys, keys))
        self.out = Linear(outputs, shape.width, False, 0)
        self.gate, self.up = (Linear(shape.width, shape.inner, False, 0) for _ in range(2))
        self.down = Linear(shape.inner, shape.width, False, 0)
        make_cosines(self, sequence, shape.head)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm1(x)
        query, key, value = (layer(normed).unflatten(-1, (-1, self.head)) for layer in (self.q, self.k, self.v))
        x = x + self.out(GroupedAttention.apply(query * self.cos, key * self.cos, value).flatten(-2))
        normed = self.norm2(x)
        return x + self.down(self.gate(normed) * self.up(normed))


class PackedLlama(Llama):
    def make_block(self, sequence: int) -> nn.Module:
        return PackedBlock(self, sequence)


class LigerLlama(Llama):
    def make_block(self, sequence: int) -> nn.Module:
        return LigerBlock(self, sequence)


def add_liger(shape: Llama, batch: int, sequence: int) -> LigerLlama:
    """Returns the shape with Liger's kernels, whose loss of a micro-batch is in chunks of a power of two of tokens.

    A chunk has as many tokens as make its logits about as large as all hidden states (fused_linear_cross_entropy.py).
    """
    tokens = 2 ** math.ceil(math.log2(batch * sequence / math.ceil(shape.vocabulary / shape.width)))
    chunks = (batch, max(1, sequence // tokens))
    return LigerLlama(**{**vars(shape), "name": "-".join([shape.name, "liger", *map(str, chunks)]), "chunks": chunks})


def pack(shape: Llama, chunks: int) -> PackedLlama:
    """Returns the shape with packed blocks, and with the loss in chunks of whole sequences."""
    return PackedLlama(**{**vars(shape), "name": f"{shape.name}-packed-loss{chunks}", "chunks": (chunks, 1)})
