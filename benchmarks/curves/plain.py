# SPDX-License-Identifier: Apache-2.0
"""Trains a model in plain PyTorch, in one process, with the settings of the job."""

import fnmatch
import math
from dataclasses import dataclass, field

import torch
from torch import nn

from models import Case, Rows, Text, build
from settings import Settings


@dataclass
class Curve:
    """The loss of each step, and those of evaluations by the number of steps before them."""

    losses: list[float] = field(default_factory=list)
    evaluations: dict[int, float] = field(default_factory=dict)


def train(case: Case, settings: Settings, seed: int) -> Curve:
    """The ranks' micro-batches are one batch here, which has the same mean."""
    torch.set_num_threads(1)
    text = Text()
    rows, held_out = text.training_rows(settings.rows, seed), text.evaluation_rows(settings.evaluation_rows)
    model = build(case, text.vocabulary, seed)
    masters = _Masters(model) if case.precision == "masters" else None
    if masters:
        model.to(torch.bfloat16)
    named = dict(masters.parameters if masters else model.named_parameters())
    optimizer = _optimizer(named, case.decay_free, settings)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _factor(step, settings))
    curve = Curve()
    for step in range(settings.steps):
        curve.losses.append(_gradients(model, rows, step, settings, masters))
        nn.utils.clip_grad_norm_(named.values(), settings.clip_norm)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if masters:
            masters.round_into(model)
        if (step + 1) % settings.eval_every == 0 or step + 1 == settings.steps:
            curve.evaluations[step + 1] = _evaluate(model, held_out)
    return curve


class _Masters:
    """float32 copies of the parameters of a model in bfloat16, and its gradient accumulators."""

    def __init__(self, model: nn.Module) -> None:
        self.parameters = {name: nn.Parameter(p.detach().clone()) for name, p in model.named_parameters()}

    def take_gradients(self, model: nn.Module) -> None:
        for name, parameter in model.named_parameters():
            master, gradient = self.parameters[name], parameter.grad.float()
            master.grad = gradient if master.grad is None else master.grad + gradient
            parameter.grad = None

    @torch.no_grad()
    def round_into(self, model: nn.Module) -> None:
        for name, parameter in model.named_parameters():
            parameter.copy_(self.parameters[name])


def _optimizer(named: dict[str, nn.Parameter], decay_free: str, settings: Settings) -> torch.optim.Optimizer:
    patterns = decay_free.split(",")
    free = {name for name in named if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)}
    groups = [
        {"params": [p for name, p in named.items() if name not in free]},
        {"params": [p for name, p in named.items() if name in free], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, settings.lr, (0.9, settings.beta2), weight_decay=settings.weight_decay)


def _factor(step: int, settings: Settings) -> float:
    if step < settings.warmup:
        return step / settings.warmup
    progress = (step - settings.warmup) / (settings.steps - settings.warmup)
    return settings.floor + (1 - settings.floor) * (1 + math.cos(math.pi * progress)) / 2


def _gradients(model: nn.Module, rows: Rows, step: int, settings: Settings, masters: _Masters | None) -> float:
    """Adds up the gradients of a step; returns its loss."""
    total = 0.0
    for k in range(settings.micro_batches):
        first = (step * settings.micro_batches + k) * settings.ranks
        ids, labels = (
            torch.from_numpy(array[first : first + settings.ranks]).flatten(0, 1) for array in (rows.ids, rows.labels)
        )
        loss = model(ids, labels)
        (loss / settings.micro_batches).backward()
        if masters:
            masters.take_gradients(model)
        total += loss.item()
    return total / settings.micro_batches


@torch.no_grad()
def _evaluate(model: nn.Module, held_out: Rows) -> float:
    model.eval()
    losses = [model(*(torch.from_numpy(a) for a in row)).item() for row in zip(held_out.ids, held_out.labels)]
    model.train()
    return sum(losses) / len(losses)
