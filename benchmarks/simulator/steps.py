# SPDX-License-Identifier: Apache-2.0
"""Makes training steps of decoder-only transformers with the shapes of published runs, as text for fcdp-sim.

A model is exported once, under FakeTensorMode, with a batch and a sequence length that are primes and divide none of the
model's sizes. So every number in the text that is divisible by them has them as factors, and replacing these factors gives
the step of another batch and sequence length.
"""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import fcdp

BATCH, SEQUENCE = 131, 1031


@dataclass(frozen=True)
class Shape:
    """The shape of a model. `lora` > 0 adds matrices of that rank to attention's four projections and freezes the rest."""

    name: str
    width: int
    heads: int
    layers: int
    vocabulary: int
    lora: int = 0
    dtype: torch.dtype = torch.float32
    """Type of the parameters. Computation is always in bfloat16."""
    loss: torch.dtype = torch.float32
    """Type of the logits in the loss."""
    eager: bool = False
    """True if attention has no fused kernel but runs operator by operator: the backward pass then reads the scores."""


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
        self.loss = shape.loss
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(sequence, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        if shape.lora:
            for name, parameter in self.named_parameters():
                parameter.requires_grad_("lora_" in name)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            x = self.tokens(ids) + self.positions.weight
            x = x.to(torch.bfloat16)
            for block in self.blocks:
                x = block(x)
            logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.to(self.loss).flatten(0, 1), labels.flatten())


def export(shape: Shape, batch: int, sequence: int, tools: Path) -> str:
    """Returns the step as text."""
    torch.set_default_dtype(shape.dtype)
    with FakeTensorMode():
        model = Step(shape, sequence)
    torch.set_default_dtype(torch.float32)
    ids = torch.zeros(batch, sequence, dtype=torch.int64)
    with tempfile.TemporaryDirectory() as folder:
        archive, text = Path(folder) / f"{shape.name}.pt2", Path(folder) / "step.mlir"
        fcdp.export(model, (ids, ids.clone()), archive)
        subprocess.run([tools / "fcdp-translate", "--import-pt2", archive, "-o", text], check=True)
        return text.read_text()


class Steps:
    """The steps of all shapes. Exported steps are kept in `cache` by name."""

    def __init__(self, cache: Path, tools: Path) -> None:
        self.cache, self.tools = cache, tools
        cache.mkdir(parents=True, exist_ok=True)

    def write(self, shape: Shape, batch: int, sequence: int, path: Path) -> None:
        path.write_text(reshape(self._load(shape), batch, sequence))

    def _load(self, shape: Shape) -> str:
        for size in (shape.width, shape.heads, shape.layers, shape.vocabulary, shape.lora):
            if size and (size % BATCH == 0 or size % SEQUENCE == 0):
                raise ValueError(f"{shape.name}: expected sizes that neither {BATCH} nor {SEQUENCE} divides, got {size}")
        path = self.cache / f"{shape.name}.mlir"
        if not path.exists():
            print(f"exporting {shape.name}", flush=True)
            text = export(shape, BATCH, SEQUENCE, self.tools)
            part = path.with_suffix(".part")
            part.write_text(text)
            part.rename(path)
        return path.read_text()


# Matches sizes in types and integer arguments, but not the numbers of values, lines and locations.
SIZES = re.compile(r"(?<=tensor<)(?:\d+x)+")
ARGUMENTS = re.compile(r"(?<=[\[ ])\d+(?=[,\])])")


def reshape(text: str, batch: int, sequence: int) -> str:
    """Converts the text of a step of BATCH and SEQUENCE to one of `batch` and `sequence`."""

    def replace(number: str) -> str:
        value = int(number)
        for prime, size in ((BATCH, batch), (SEQUENCE, sequence)):
            if value and value % prime == 0:
                value = value // prime * size
        return str(value)

    text = SIZES.sub(lambda match: re.sub(r"\d+", lambda digits: replace(digits[0]), match[0]), text)
    return ARGUMENTS.sub(lambda match: replace(match[0]), text)
