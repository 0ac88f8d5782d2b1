# SPDX-License-Identifier: Apache-2.0
"""Trains with plain PyTorch, as the reference for sharded runs."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from fcdp.call import LossFn, loss_forward, make_call
from fcdp.optimizers import OptimizerFactory, optimizer_factory

ScheduleFactory = Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler]
Batches = Sequence[Sequence[Any]] | Callable[[int], Sequence[Any]]


def reference(
    model: nn.Module,
    batches: Batches,
    optimizer: str | OptimizerFactory,
    steps: int,
    *,
    world: int = 1,
    seed: int | None = None,
    loss_fn: LossFn | None = None,
    clip_norm: float | None = None,
    schedule: ScheduleFactory | None = None,
) -> list[float]:
    """Trains `model` in place for `steps` optimizer steps. Returns the mean loss of each step, summed in float64.

    batches[s], or batches(s), holds the inputs of step s (each a tuple or dict as for fcdp.export) in the order in
    which their gradients are added: micro-batch by micro-batch, and within one by rank (index k * world + r). Gradients
    are added in float32, divided by their number, and rounded once to the parameter's type. Gradients of float64
    parameters are added in float64, while a compiled step rounds them to float32. With clip_norm they are then clipped
    by torch.nn.utils.clip_grad_norm_. `schedule` makes PyTorch's learning-rate scheduler, such as lambda optimizer:
    LambdaLR(optimizer, factor), which goes on after each step.

    Each of the `world` ranks has its own buffers and, with `seed`, its own random generator, which is seeded with
    seed + rank. At the end the model has the trained parameters and rank 0's buffers.
    """
    make_optimizer = optimizer_factory(optimizer) if isinstance(optimizer, str) else optimizer
    parameters = [p for p in model.parameters() if p.requires_grad]
    stepper = make_optimizer(parameters)
    scheduler = schedule(stepper) if schedule else None
    ranks = [_RankState(model, None if seed is None else seed + rank) for rank in range(world)]
    losses = []
    for step in range(steps):
        inputs = batches(step) if callable(batches) else batches[step]
        sums: list[torch.Tensor | None] = [None] * len(parameters)
        loss_sum = 0.0
        for index, batch in enumerate(inputs):
            ranks[index % world].enter(model)
            loss, gradients = _loss_and_gradients(model, batch, parameters, loss_fn)
            ranks[index % world].leave(model)
            loss_sum += loss
            sums = [_add(total, gradient) for total, gradient in zip(sums, gradients)]
        for parameter, total in zip(parameters, sums):
            parameter.grad = None if total is None else (total / len(inputs)).to(parameter.dtype)
        if clip_norm is not None:
            nn.utils.clip_grad_norm_(parameters, clip_norm)
        stepper.step()
        if scheduler:
            scheduler.step()
        losses.append(loss_sum / len(inputs))
    stepper.zero_grad()
    ranks[0].enter(model)
    return losses


def _loss_and_gradients(
    model: nn.Module, batch: Any, parameters: list[nn.Parameter], loss_fn: LossFn | None
) -> tuple[float, tuple[torch.Tensor | None, ...]]:
    call = make_call(model, batch, loss_fn)
    with loss_forward(model, call):
        loss = model(*call.values)
    return loss.item(), torch.autograd.grad(loss, parameters, allow_unused=True)


def _add(total: torch.Tensor | None, gradient: torch.Tensor | None) -> torch.Tensor | None:
    if gradient is None:
        return total
    wide = gradient.to(torch.promote_types(gradient.dtype, torch.float32))
    return wide if total is None else total + wide


class _RankState:
    """The state that ranks do not share: buffers and, optionally, a random generator."""

    def __init__(self, model: nn.Module, seed: int | None):
        self._buffers = [buffer.clone() for buffer in model.buffers()]
        self._generator = None if seed is None else torch.Generator().manual_seed(seed).get_state()

    def enter(self, model: nn.Module) -> None:
        with torch.no_grad():
            for buffer, value in zip(model.buffers(), self._buffers):
                buffer.copy_(value)
        if self._generator is not None:
            torch.set_rng_state(self._generator)

    def leave(self, model: nn.Module) -> None:
        self._buffers = [buffer.clone() for buffer in model.buffers()]
        if self._generator is not None:
            self._generator = torch.get_rng_state()
