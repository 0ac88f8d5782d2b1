# SPDX-License-Identifier: Apache-2.0
"""Models of a few dozen elements, one for each thing an export has to handle."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """Fused attention, whose gradients torch.export's own joint export gets wrong."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).unsqueeze(1).chunk(3, dim=-1)
        return x + F.silu(F.scaled_dot_product_attention(q, k, v, is_causal=True).squeeze(1))


class Tiny(nn.Module):
    """Embedding, two blocks and a head; the head may be tied to the embedding."""

    def __init__(self, tied: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 12, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


def tiny_inputs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return tuple(torch.randint(12, (2, 6), generator=generator) for _ in range(2))


class Regression(nn.Module):
    """Returns a prediction, not a loss; `spare` is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.spare = nn.Linear(3, 3)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self.fc(input)


class BatchNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.norm(self.fc(x))).square().mean()
