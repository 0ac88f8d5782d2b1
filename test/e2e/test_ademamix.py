# SPDX-License-Identifier: Apache-2.0
"""AdEMAMix with what an optimizer goes together with. Its reference is a test of test/python/test_reference.py."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import fcdp
from checkpoints import read_checkpoint
from expectations import LOSS_TOLERANCE
from fcdp.optimizers import AdEMAMix
from harness import Config, Workshop, relative_error, run_command, tool
from models import build
from optimizer_checks import (
    EVERYTHING,
    STEPS,
    assert_checkpoints_go_on,
    assert_refuses,
    assert_strategy_is_bit_equal,
    each_strategy,
)

# Warm-ups that end within the steps of a test, at different ones.
ADEMAMIX = "ademamix,lr=1e-3,beta3=0.99,alpha=3,beta3_warmup=2,alpha_warmup=3,eps=1e-3,weight_decay=0.1"
FULL = replace(EVERYTHING, optimizer=ADEMAMIX, groups=("*.bias,*ln*:weight_decay=0", "*wte*,*wpe*:lr=0.25"))
STATES = ("exp_avg", "exp_avg_sq", "momentum_buffer")


def test_one_rank_trains_as_the_reference(workshop: Workshop, tmp_path: Path) -> None:
    config = Config("hf_llama", 1, 1, optimizer=ADEMAMIX)
    given, network = workshop.model(config.model), build(config.model)
    data = fcdp.batches_from_npy(given.inputs, 1, 1)
    optimizers: list[AdEMAMix] = []

    def make(trained: Iterable[nn.Parameter]) -> AdEMAMix:
        optimizers.append(
            AdEMAMix(
                trained,
                lr=1e-3,
                betas=(0.9, 0.999, 0.99),
                alpha=3,
                beta3_warmup=2,
                alpha_warmup=3,
                eps=1e-3,
                weight_decay=0.1,
            )
        )
        return optimizers[0]

    losses = fcdp.reference(network, data, make, STEPS, seed=0)
    tool(*run_command(workshop.step(config), given.archive, given.inputs, STEPS, f"--save-dir={tmp_path}"))
    states = read_checkpoint(tmp_path / f"step-{STEPS:08}").states
    assert {role for role, _ in states} - {"buffer"} == {"value", *STATES}
    assert relative_error(workshop.run(config, STEPS).losses, losses) <= LOSS_TOLERANCE[config.model]
    for name, value in network.named_parameters():
        torch.testing.assert_close(states["value", name], value, rtol=1e-4, atol=1e-6)
        for role in STATES:
            expected = optimizers[0].state[value][role]
            torch.testing.assert_close(states[role, name], expected, rtol=1e-3, atol=1e-7)
            assert expected.any(), (role, name)


@pytest.mark.parametrize("model", ["mlp_dropout", "gpt_bf16"])
def test_four_ranks_train_as_the_reference(workshop: Workshop, model: str) -> None:
    config = Config(model, optimizer=ADEMAMIX)
    losses = workshop.run(config, STEPS).losses
    assert relative_error(losses, workshop.reference(config, STEPS).losses) <= LOSS_TOLERANCE[model]


@each_strategy
def test_strategies_are_bit_equal(workshop: Workshop, strategy: str) -> None:
    assert_strategy_is_bit_equal(workshop, FULL, strategy)


def test_checkpoints_go_on_elsewhere(workshop: Workshop, tmp_path: Path) -> None:
    others = [replace(FULL, nodes=1, local=1, strategy="zero3")]
    assert_checkpoints_go_on(workshop, tmp_path, FULL, others, {"value", "master", *STATES}, "momentum_buffer")


def test_other_optimizers_states_are_refused(workshop: Workshop, tmp_path: Path) -> None:
    ademamix, adamw = (Config("mlp_dropout", 1, 1, optimizer=optimizer) for optimizer in (ADEMAMIX, "adamw"))
    assert_refuses(workshop, tmp_path, ademamix, adamw, "the step has no momentum_buffer of")
