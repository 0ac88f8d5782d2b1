# SPDX-License-Identifier: Apache-2.0
"""A Llama in plain PyTorch, so that the machine with the GPU needs no other package."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Shape:
    """The shape of a model and of one micro-batch."""

    layers: int
    width: int
    intermediate: int
    heads: int
    key_value_heads: int
    vocabulary: int
    batch: int
    time: int
    dtype: str = "bfloat16"

    @property
    def tokens(self) -> int:
        return self.batch * self.time


# The shapes of TinyLlama, https://github.com/jzhang38/TinyLlama: 1.1 billion parameters.
LLAMA_1B = Shape(22, 2048, 5632, 32, 4, vocabulary=32000, batch=4, time=2048)


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.head = shape.width // shape.heads
        self.groups = shape.heads // shape.key_value_heads
        key_value = shape.key_value_heads * self.head
        self.norm1 = nn.RMSNorm(shape.width)
        self.q = nn.Linear(shape.width, shape.width, bias=False)
        self.k = nn.Linear(shape.width, key_value, bias=False)
        self.v = nn.Linear(shape.width, key_value, bias=False)
        self.o = nn.Linear(shape.width, shape.width, bias=False)
        self.norm2 = nn.RMSNorm(shape.width)
        self.gate = nn.Linear(shape.width, shape.intermediate, bias=False)
        self.up = nn.Linear(shape.width, shape.intermediate, bias=False)
        self.down = nn.Linear(shape.intermediate, shape.width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.norm1(x), cos, sin)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def attend(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        q, k, v = (part(x).unflatten(-1, (-1, self.head)).transpose(1, 2) for part in (self.q, self.k, self.v))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (part.repeat_interleave(self.groups, dim=1) for part in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-high, low), dim=-1) * sin


class Llama(nn.Module):
    """A Llama. `forward` takes int64 ids and labels of shape [batch, time].

    It returns the mean cross-entropy in nats per token.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.half = shape.width // shape.heads // 2
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        cos, sin = self.angles(ids.shape[1], x)
        for block in self.blocks:
            x = block(x, cos, sin)
        logits = self.head(self.norm(x)).float()
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())

    def angles(self, time: int, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        frequencies = 10000.0 ** (torch.arange(self.half, device=x.device, dtype=torch.float32) / -self.half)
        angles = torch.arange(time, device=x.device)[:, None] * frequencies
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def make(shape: Shape) -> Llama:
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, shape.dtype))
    try:
        return Llama(shape)
    finally:
        torch.set_default_dtype(before)


def parameter_names(shape: Shape) -> dict[str, torch.Tensor]:
    """Returns the parameters by name, as tensors with shapes and types but without memory."""
    with torch.device("meta"):
        return dict(make(shape).named_parameters())
