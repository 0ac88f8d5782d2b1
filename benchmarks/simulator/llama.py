# SPDX-License-Identifier: Apache-2.0
"""Llama and its relatives (Qwen2.5, Mistral, InternLM), with the shapes of published runs.

All compute in bfloat16. Parameters in float32 are cast at each use, as FSDP's MixedPrecision does.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from crossentropy import chunked_loss


@dataclass(frozen=True)
class Llama:
    """The shape of a model.

    `fused` says that the source ran RMSNorm and rotary embeddings as one kernel each. Then a layer norm without bias
    and one product with the cosines stand for them, which access the same bytes. Otherwise they are the operators of
    Transformers.
    """

    name: str
    width: int
    heads: int
    layers: int
    inner: int
    """Width of the feed-forward layer."""
    vocabulary: int
    key_heads: int = 0
    """Heads of keys and values; 0 for as many as `heads`."""
    head_width: int = 0
    """0 for width / heads."""
    tied: bool = False
    bias: bool = False
    """True if the projections of query, key and value have a bias, as in Qwen2.5."""
    fused: bool = False
    lora: int = 0
    """Rank of additional factors of the linear layers in blocks (arXiv 2106.09685), or 0. Then all else is frozen."""
    adapted: str = "q k v out gate up down"
    """The linear layers that have these factors."""
    dtype: torch.dtype = torch.float32
    loss: torch.dtype = torch.float32
    """Type of the logits in the loss."""
    chunks: tuple[int, int] | None = None
    """The numbers of parts of the batch and of each sequence whose logits exist at once (crossentropy.py), or None for
    all logits.
    """

    @property
    def divided(self) -> tuple[int, int]:
        return self.chunks or (1, 1)

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.width, self.heads, self.layers, self.inner, self.vocabulary, self.key_heads, self.head, self.lora

    @property
    def head(self) -> int:
        return self.head_width or self.width // self.heads

    def make(self, sequence: int) -> nn.Module:
        return Step(self, sequence)

    def make_block(self, sequence: int) -> nn.Module:
        return Block(self, sequence)

    def make_feed_forward(self) -> nn.Module:
        return FeedForward(self)

    def get_rank(self, layer: str) -> int:
        """Returns the rank of the factors of a linear layer."""
        return self.lora if layer in self.adapted.split() else 0


def narrow(parameter: torch.Tensor | None) -> torch.Tensor | None:
    return None if parameter is None else parameter.to(torch.bfloat16)


class Linear(nn.Linear):
    """A linear layer, with two additional factors of rank `lora` if it is not 0."""

    def __init__(self, inputs: int, outputs: int, bias: bool, lora: int) -> None:
        super().__init__(inputs, outputs, bias)
        self.lora = lora
        if lora:
            self.lora_a = nn.Linear(inputs, lora, bias=False)
            self.lora_b = nn.Linear(lora, outputs, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.linear(x, narrow(self.weight), narrow(self.bias))
        return y + F.linear(F.linear(x, narrow(self.lora_a.weight)), narrow(self.lora_b.weight)) if self.lora else y


class RmsNorm(nn.Module):
    def __init__(self, width: int, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = narrow(self.weight)
        if self.fused:
            return F.layer_norm(x, weight.shape, weight)
        wide = x.float()
        return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(torch.bfloat16)


class Attention(nn.Module):
    def __init__(self, shape: Llama, sequence: int) -> None:
        super().__init__()
        self.heads, self.key_heads = shape.heads, shape.key_heads or shape.heads
        self.fused = shape.fused
        outputs = shape.heads * shape.head
        keys = self.key_heads * shape.head
        self.q = Linear(shape.width, outputs, shape.bias, shape.get_rank("q"))
        self.k = Linear(shape.width, keys, shape.bias, shape.get_rank("k"))
        self.v = Linear(shape.width, keys, shape.bias, shape.get_rank("v"))
        self.out = Linear(outputs, shape.width, False, shape.get_rank("out"))
        for name in ("cos", "sin"):
            self.register_buffer(name, torch.zeros(sequence, shape.head, dtype=torch.bfloat16), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query = self.rotate(self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2))
        key = self.rotate(self.k(x).unflatten(-1, (self.key_heads, -1)).transpose(1, 2))
        value = self.v(x).unflatten(-1, (self.key_heads, -1)).transpose(1, 2)
        if self.key_heads != self.heads:
            key, value = (part.repeat_interleave(self.heads // self.key_heads, 1) for part in (key, value))
        return self.out(F.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2).flatten(-2))

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        if self.fused:
            return x * self.cos
        first, second = x.chunk(2, -1)
        return x * self.cos + torch.cat((-second, first), -1) * self.sin


class FeedForward(nn.Module):
    def __init__(self, shape: Llama) -> None:
        super().__init__()
        self.gate = Linear(shape.width, shape.inner, False, shape.get_rank("gate"))
        self.up = Linear(shape.width, shape.inner, False, shape.get_rank("up"))
        self.down = Linear(shape.inner, shape.width, False, shape.get_rank("down"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, shape: Llama, sequence: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = RmsNorm(shape.width, shape.fused), RmsNorm(shape.width, shape.fused)
        self.attention = Attention(shape, sequence)
        self.feed_forward = shape.make_feed_forward()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Step(nn.Module):
    def __init__(self, shape: Llama, sequence: int) -> None:
        super().__init__()
        self.loss, self.chunks = shape.loss, shape.chunks
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(shape.make_block(sequence) for _ in range(shape.layers))
        self.norm = RmsNorm(shape.width, shape.fused)
        self.head = None if shape.tied else nn.Linear(shape.width, shape.vocabulary, bias=False)
        if shape.lora:
            for name, parameter in self.named_parameters():
                parameter.requires_grad_("lora_" in name)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = F.embedding(ids, narrow(self.tokens.weight))
        for block in self.blocks:
            x = block(x)
        x, matrix = self.norm(x), narrow((self.head or self.tokens).weight)
        if self.chunks:
            return chunked_loss(x, matrix, labels, math.prod(self.chunks))
        logits = F.linear(x, matrix)
        return F.cross_entropy(logits.to(self.loss).flatten(0, 1), labels.flatten())
