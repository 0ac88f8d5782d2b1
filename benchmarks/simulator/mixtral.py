# SPDX-License-Identifier: Apache-2.0
"""Mixtral as Transformers 4.36 to 4.39 computed it: a loop over the experts, which skips those that no token chose.

The loop's sizes depend on the data, but the sizes of an exported step are fixed. Only this file has the stand-ins:
`loads` divides the tokens among the experts, and a slice of the sorted choices replaces the tokens that chose an
expert. One operator replaces each operator that the loop calls, except for copies of indices to the host and back, for
which it waits.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from llama import FeedForward, Linear, Llama


@dataclass(frozen=True)
class Mixtral(Llama):
    experts: int = 8
    chosen: int = 2
    """Experts that each token chooses."""
    loads: tuple[int, ...] = (1, 1, 1, 1, 1, 1, 1, 1)
    """The experts with tokens, each with a load in proportion to its number. The last ones have none if there are fewer
    than `experts`. Then their parameters have no gradients.
    """

    @property
    def sizes(self) -> tuple[int, ...]:
        return *super().sizes, self.experts

    @property
    def divided(self) -> tuple[int, int]:
        """Sequences have a multiple of so many tokens, so that loads are whole numbers."""
        return 1, sum(self.loads) // math.gcd(sum(self.loads), self.chosen)

    @property
    def idle_parameters(self) -> int:
        """Parameters of experts without tokens."""
        return self.layers * (self.experts - len(self.loads)) * 3 * self.width * self.inner

    def make_feed_forward(self) -> nn.Module:
        return Mixture(self)


class Mixture(nn.Module):
    def __init__(self, shape: Mixtral) -> None:
        super().__init__()
        self.chosen, self.loads = shape.chosen, shape.loads
        self.router = Linear(shape.width, shape.experts, False, 0)
        self.experts = nn.ModuleList(FeedForward(shape) for _ in range(shape.experts))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = x.flatten(0, 1)
        weights, choices = F.softmax(self.router(hidden), -1, dtype=torch.float32).topk(self.chosen)
        weights = (weights / weights.sum(-1, keepdim=True)).to(x.dtype).flatten()
        order = choices.flatten().argsort()
        result = torch.zeros_like(hidden)
        part = order.numel() // sum(self.loads)
        for expert, places in zip(self.experts, order.split([load * part for load in self.loads])):
            tokens = places // self.chosen
            result = result.index_add(0, tokens, expert(hidden[tokens]) * weights[places, None])
        return result.view_as(x)
