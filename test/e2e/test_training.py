# SPDX-License-Identifier: Apache-2.0
"""Every model on 2 nodes x 2 ranks: against plain PyTorch, both strategies against each other, and the bytes."""

from dataclasses import replace

import pytest
import torch

from closed_forms import traffic
from expectations import LIVE_RANGES, LOSS_TOLERANCE
from harness import Config, Workshop, assert_bit_equal, read_plan, parameters, relative_error

STEPS = 4
STRATEGIES = ("zero3", "fcdp")


@pytest.fixture(params=LIVE_RANGES)
def config(request: pytest.FixtureRequest) -> Config:
    return Config(request.param)


def test_losses_are_those_of_pytorch(workshop: Workshop, config: Config) -> None:
    run = workshop.run(config, STEPS)
    expected = workshop.reference(config, STEPS).losses
    assert relative_error(run.losses, expected) <= LOSS_TOLERANCE[config.model]
    assert run.losses[0] != run.losses[-1]


def test_parameters_are_those_of_pytorch(workshop: Workshop, config: Config) -> None:
    trained = parameters(workshop.run(config, STEPS).parameters)
    expected = workshop.reference(config, STEPS).parameters
    assert set(expected) <= set(trained)
    for name, value in expected.items():
        assert trained[name].dtype == value.dtype and trained[name].shape == value.shape, name
        wide = LOSS_TOLERANCE[config.model] > 1e-5
        # A step has a length of at most lr = 1e-3, and bfloat16 rounds a parameter to 2^-8 of it.
        rtol, atol = (1e-2, 4e-3) if wide else (1e-4, 2e-6)
        torch.testing.assert_close(trained[name], value, rtol=rtol, atol=atol, msg=lambda text: f"{name}: {text}")


def test_strategies_are_bit_equal(workshop: Workshop, config: Config) -> None:
    assert_bit_equal(*(workshop.run(replace(config, strategy=strategy), STEPS) for strategy in STRATEGIES))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_bytes_are_the_closed_forms(workshop: Workshop, config: Config, strategy: str) -> None:
    config = replace(config, strategy=strategy)
    once, each = traffic(read_plan(workshop.step(config)), strategy, LIVE_RANGES[config.model])
    assert workshop.run(config, STEPS).traffic == [once + each] + [each] * (STEPS - 1)


def test_twenty_steps_of_adamw(workshop: Workshop) -> None:
    config = Config("gpt", optimizer="adamw,lr=1e-3")
    run = workshop.run(config, 20)
    assert relative_error(run.losses, workshop.reference(config, 20).losses) <= 1e-5
    assert run.losses[-1] < run.losses[0]


@pytest.mark.parametrize("optimizer", ["sgd,lr=0.5", "sgd,lr=0.1,momentum=0.9,weight_decay=0.1"])
def test_sgd_in_bf16(workshop: Workshop, optimizer: str) -> None:
    config = Config("gpt_bf16", optimizer=optimizer)
    run, expected = workshop.run(config, STEPS), workshop.reference(config, STEPS)
    assert relative_error(run.losses, expected.losses) <= LOSS_TOLERANCE[config.model]
    trained = parameters(run.parameters)
    for name, value in expected.parameters.items():
        torch.testing.assert_close(trained[name], value, rtol=1e-2, atol=4e-3, msg=lambda text: f"{name}: {text}")
    assert_bit_equal(run, workshop.run(replace(config, strategy="ddp"), STEPS))


def test_a_run_repeats_bit_for_bit(workshop: Workshop) -> None:
    config = Config("mlp_dropout")
    again = workshop.run_object(workshop.step(config), config, STEPS, "mlp-again")
    assert_bit_equal(workshop.run(config, STEPS), again)


def test_no_memory_is_asked_for_after_the_first_step(workshop: Workshop) -> None:
    steps = workshop.run(Config("gpt"), STEPS).steps
    assert [step["system_allocations"] for step in steps[1:]] == [0] * (STEPS - 1)
