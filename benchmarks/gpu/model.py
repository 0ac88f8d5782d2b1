# SPDX-License-Identifier: Apache-2.0
"""A Llama and a GPT-2 in plain PyTorch, so that the machine with the GPU needs no other package."""

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
    kind: str = "llama"
    """A key of MODELS."""

    @property
    def tokens(self) -> int:
        return self.batch * self.time


# The shapes of TinyLlama, https://github.com/jzhang38/TinyLlama: 1.1 billion parameters.
LLAMA_1B = Shape(22, 2048, 5632, 32, 4, vocabulary=32000, batch=4, time=2048)
# 0.13 and 0.4 billion parameters.
LLAMA_100M = Shape(12, 768, 2048, 12, 12, vocabulary=32000, batch=8, time=1024)
LLAMA_400M = Shape(24, 1024, 2816, 16, 8, vocabulary=32000, batch=8, time=1024)
# The shapes of OpenLLaMA 3B, https://github.com/openlm-research/open_llama: 3.4 billion parameters.
LLAMA_3B = Shape(26, 3200, 8640, 32, 32, vocabulary=32000, batch=2, time=2048)
# Rows of several documents, whose lengths are 256 tokens in the mean.
PACKED = Shape(8, 1024, 2816, 16, 8, vocabulary=32000, batch=4, time=2048, kind="packed")
# The smallest GPT-2: 0.12 billion parameters.
GPT2 = Shape(12, 768, 3072, 12, 12, vocabulary=50257, batch=8, time=1024, kind="gpt2")


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

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        x = x + self.attend(self.norm1(x), cos, sin, mask)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def attend(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        q, k, v = (part(x).unflatten(-1, (-1, self.head)).transpose(1, 2) for part in (self.q, self.k, self.v))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (part.repeat_interleave(self.groups, dim=1) for part in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None)
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
        mask = self.mask(ids)
        for block in self.blocks:
            x = block(x, cos, sin, mask)
        logits = self.head(self.norm(x)).float()
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())

    def mask(self, ids: torch.Tensor) -> torch.Tensor | None:
        """Returns which tokens see each other, or None if a token sees all that are not after it."""
        return None

    def angles(self, time: int, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        frequencies = 10000.0 ** (torch.arange(self.half, device=x.device, dtype=torch.float32) / -self.half)
        angles = torch.arange(time, device=x.device)[:, None] * frequencies
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


class PackedLlama(Llama):
    """A Llama on rows of several documents. A document begins with one of the tokens of which one in DOCUMENT is."""

    DOCUMENT = 256

    def mask(self, ids: torch.Tensor) -> torch.Tensor:
        documents = (ids % self.DOCUMENT == 0).cumsum(-1)
        causal = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).tril()
        return (documents[:, None, :, None] == documents[:, None, None, :]) & causal


class GptBlock(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm1 = nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.o = nn.Linear(shape.width, shape.width)
        self.norm2 = nn.LayerNorm(shape.width)
        self.up = nn.Linear(shape.width, shape.intermediate)
        self.down = nn.Linear(shape.intermediate, shape.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))


class Gpt(nn.Module):
    """A GPT-2, whose head is its embedding. `forward` is that of Llama."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.time, shape.width)
        self.blocks = nn.ModuleList(GptBlock(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.embedding.weight).float()
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


MODELS = {"llama": Llama, "packed": PackedLlama, "gpt2": Gpt}


def make(shape: Shape) -> Llama | Gpt:
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, shape.dtype))
    try:
        return MODELS[shape.kind](shape)
    finally:
        torch.set_default_dtype(before)


def parameter_names(shape: Shape) -> dict[str, torch.Tensor]:
    """Returns the parameters by name, as tensors with shapes and types but without memory."""
    with torch.device("meta"):
        return dict(make(shape).named_parameters())
