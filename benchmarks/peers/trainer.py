# SPDX-License-Identifier: Apache-2.0
"""The code that the trainers of several peers have in common."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import nn

TIMEOUT = timedelta(seconds=120)


@dataclass
class Trainer:
    """A loop over micro-batches with an optimizer of PyTorch."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    micro_batch: Callable[[bool], contextlib.AbstractContextManager[Any]] = lambda last: contextlib.nullcontext()
    """Surrounds the forward and backward pass of a micro-batch; gets whether it is the last."""

    def step(self, batches: list[list[torch.Tensor]]) -> torch.Tensor:
        """Returns the mean loss of this rank's micro-batches."""
        total = torch.zeros(())
        for k, batch in enumerate(batches):
            with self.micro_batch(k + 1 == len(batches)):
                loss = self.model(*batch)
                (loss / len(batches)).backward()
            total += loss.detach()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total / len(batches)


def make_optimizer(model: nn.Module, job: dict[str, Any]) -> torch.optim.Optimizer:
    return torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), job["lr"])
