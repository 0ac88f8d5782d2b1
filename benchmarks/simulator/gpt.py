# SPDX-License-Identifier: Apache-2.0
"""GPT-2 and MPT, with the shapes of published runs."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from crossentropy import fused_loss


@dataclass(frozen=True)
class Shape:
    """The shape of a model.

    `lora` > 0 adds matrices of that rank to attention's four projections and freezes the rest.
    """

    name: str
    width: int
    heads: int
    layers: int
    vocabulary: int
    lora: int = 0
    dtype: torch.dtype = torch.float32
    """Type of the parameters."""
    compute: torch.dtype = torch.bfloat16
    loss: torch.dtype = torch.float32
    """Type of the logits in the loss."""
    fused_loss: bool = False
    """True if the loss is one kernel (crossentropy.py), on logits of the type of computation."""
    eager: bool = False
    """True if attention has no fused kernel but runs operator by operator: the backward pass then reads the scores."""

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.width, self.heads, self.layers, self.vocabulary, self.lora

    def make(self, sequence: int) -> nn.Module:
        return Step(self, sequence)


class Projection(nn.Linear):
    """A linear layer, with two additional low-rank factors (arXiv 2106.09685) if `rank` is not 0."""

    def __init__(self, inputs: int, outputs: int, rank: int) -> None:
        super().__init__(inputs, outputs)
        self.rank = rank
        if rank:
            self.lora_a = nn.Linear(inputs, rank, bias=False)
            self.lora_b = nn.Linear(rank, outputs, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        return y + self.lora_b(self.lora_a(x)) if self.rank else y


def attend_eagerly(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, is_causal: bool) -> torch.Tensor:
    """Computes attention as GPT-2 in Hugging Face's transformers (4.x, GPT2Attention._attn), without dropout."""
    scores = query @ key.transpose(-1, -2) / value.shape[-1] ** 0.5
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = torch.where(seen, scores, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, -1, dtype=value.dtype) @ value


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.attend = attend_eagerly if shape.eager else F.scaled_dot_product_attention
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        # One product for query, key and value. LoRA has factors for each, so it has three products.
        parts = 3 if shape.lora else 1
        self.qkv = nn.ModuleList(Projection(width, 3 // parts * width, shape.lora) for _ in range(parts))
        self.out = Projection(width, width, shape.lora)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm1(x)
        parts = [layer(normed) for layer in self.qkv]
        query, key, value = parts if len(parts) == 3 else parts[0].chunk(3, -1)
        split = [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (query, key, value)]
        attended = self.attend(*split, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Step(nn.Module):
    """GPT-2 or MPT: learned positions, pre-layer norms, biases, and a head that is tied to the embedding."""

    def __init__(self, shape: Shape, sequence: int) -> None:
        super().__init__()
        self.compute, self.loss, self.fused_loss = shape.compute, shape.loss, shape.fused_loss
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(sequence, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        if shape.lora:
            for name, parameter in self.named_parameters():
                parameter.requires_grad_("lora_" in name)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", self.compute):
            x = self.tokens(ids) + self.positions.weight
            x = x.to(self.compute)
            for block in self.blocks:
                x = block(x)
            x = self.norm(x)
            if self.fused_loss:
                return fused_loss(x, self.tokens.weight.to(self.compute), labels)
            logits = F.linear(x, self.tokens.weight)
        return F.cross_entropy(logits.to(self.loss).flatten(0, 1), labels.flatten())
