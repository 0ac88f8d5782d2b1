# SPDX-License-Identifier: Apache-2.0
"""Nodes that train by themselves and are synchronized by outer steps only, beside plain PyTorch that does the same."""

import copy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import fcdp
from fcdp.optimizers import optimizer_factory
from harness import Config, ToolError, Workshop, assert_bit_equal, parameters, read_plan, relative_error
from models import build

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS = 8

AVERAGED = Config("gpt", strategy="hsdp", outer="1,lr=1,momentum=0,dtype=f32")
DILOCO = Config("gpt", strategy="hsdp", outer="3,dtype=f32")


@dataclass(frozen=True)
class Outer:
    """What --outer asks for, as the tests spell it."""

    every: int
    lr: float
    momentum: float
    nesterov: bool

    @staticmethod
    def of(config: Config) -> "Outer":
        first, *settings = config.outer.split(",")
        given = dict(setting.split("=") for setting in settings)
        momentum = float(given.get("momentum", 0.9))
        nesterov = given.get("optimizer", "nesterov") == "nesterov" and momentum != 0
        return Outer(int(first), float(given.get("lr", 0.7)), momentum, nesterov)


class Node:
    """A node's own copy of the model, its optimizer, and the rows of its ranks."""

    def __init__(self, model: nn.Module, config: Config, node: int):
        self.model = copy.deepcopy(model)
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.stepper = optimizer_factory(config.optimizer)(self.parameters)
        self.config = config
        ranks = range(node * config.local, (node + 1) * config.local)
        self.rows = [k * config.world + rank for k in range(config.micro_batches) for rank in ranks]

    def step(self, batches: list) -> float:
        total = 0.0
        self.stepper.zero_grad()
        for row in self.rows:
            loss = self.model(*fcdp.call.make_call(self.model, batches[row], None).values)
            loss.backward()
            total += loss.item()
        for parameter in self.parameters:
            parameter.grad /= len(self.rows)
        if self.config.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.config.clip_norm)
        self.stepper.step()
        return total


def diloco(workshop: Workshop, config: Config, steps: int) -> tuple[list[float], list[torch.Tensor]]:
    """The loss of each step over all ranks, and the parameters of all nodes' model after the last outer step."""
    outer = Outer.of(config)
    data = fcdp.batches_from_npy(workshop.model(config.model).inputs, config.world, config.micro_batches)
    model = build(config.model)
    nodes = [Node(model, config, node) for node in range(config.nodes)]
    common = [p for p in model.parameters() if p.requires_grad]
    stepper = torch.optim.SGD(common, lr=outer.lr, momentum=outer.momentum, nesterov=outer.nesterov)
    losses = []
    for step in range(1, steps + 1):
        batches = data(step - 1)
        losses.append(sum(node.step(batches) for node in nodes) / (config.world * config.micro_batches))
        if step % outer.every:
            continue
        for parameter, *copies in zip(common, *(node.parameters for node in nodes)):
            parameter.grad = sum(parameter.detach() - own.detach() for own in copies) / config.nodes
        stepper.step()
        with torch.no_grad():
            for parameter, *copies in zip(common, *(node.parameters for node in nodes)):
                for own in copies:
                    own.copy_(parameter)
    return losses, [p.detach() for p in common]


CONFIGS = [
    AVERAGED,
    DILOCO,
    replace(DILOCO, outer="2,optimizer=sgd,lr=0.5,momentum=0.3,dtype=f32"),
    replace(DILOCO, micro_batches=3),
    replace(DILOCO, strategy="mics", micro_batches=2),
    replace(DILOCO, micro_batches=2, accumulate="full"),
    replace(DILOCO, clip_norm=0.5),
    replace(DILOCO, nodes=4, local=1),
    replace(DILOCO, nodes=3, local=2, optimizer="sgd,lr=0.1,momentum=0.9"),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_losses_are_those_of_pytorch(workshop: Workshop, config: Config) -> None:
    expected, _ = diloco(workshop, config, STEPS)
    assert relative_error(workshop.run(config, STEPS).losses, expected) < 1e-5
