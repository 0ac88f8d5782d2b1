# SPDX-License-Identifier: Apache-2.0
"""A bound on the norm of all gradients."""

from dataclasses import replace

import pytest

from harness import Config, Workshop, assert_bit_equal, parameters, relative_error

STEPS = 4
# SGD, as AdamW hardly sees the gradients' scale. The norms of the first steps are above and below the second bound.
CLIPPED = Config("gpt", micro_batches=2, optimizer="sgd,lr=0.5", clip_norm=0.05)


@pytest.mark.parametrize("config", [CLIPPED, replace(CLIPPED, nodes=3, local=1, micro_batches=1)], ids=["2x2", "3x1"])
def test_losses_and_parameters_are_those_of_pytorch(workshop: Workshop, config: Config) -> None:
    run, expected = workshop.run(config, STEPS), workshop.reference(config, STEPS)
    assert relative_error(run.losses, expected.losses) <= 1e-5
    trained = parameters(run.parameters)
    for name, value in expected.parameters.items():
        assert trained[name].allclose(value, rtol=1e-4, atol=1e-6), name


def test_the_bound_shows(workshop: Workshop) -> None:
    free = workshop.run(replace(CLIPPED, clip_norm=None), STEPS).losses
    assert relative_error(workshop.run(CLIPPED, STEPS).losses, free) > 1e-3


def test_a_wide_bound_changes_nothing(workshop: Workshop) -> None:
    wide = replace(CLIPPED, clip_norm=1e6)
    assert_bit_equal(workshop.run(wide, STEPS), workshop.run(replace(CLIPPED, clip_norm=None), STEPS))


@pytest.mark.parametrize("strategy", ["zero2", "zero3", "hpz", "ddp", "hsdp"])
def test_strategies_are_bit_equal(workshop: Workshop, strategy: str) -> None:
    assert_bit_equal(workshop.run(CLIPPED, STEPS), workshop.run(replace(CLIPPED, strategy=strategy), STEPS))


@pytest.mark.parametrize(("nodes", "local"), [(3, 1), (1, 3)])
@pytest.mark.parametrize("strategy", ["ddp", "hsdp"])
def test_each_shard_counts_once(workshop: Workshop, strategy: str, nodes: int, local: int) -> None:
    """However many ranks hold a gradient."""
    config = replace(CLIPPED, nodes=nodes, local=local, micro_batches=1)
    assert_bit_equal(workshop.run(config, STEPS), workshop.run(replace(config, strategy=strategy), STEPS))


def test_the_norm_is_control_traffic(workshop: Workshop) -> None:
    free, clipped = (workshop.run(replace(CLIPPED, clip_norm=bound), STEPS) for bound in (None, CLIPPED.clip_norm))
    assert clipped.traffic == free.traffic
    # Each of a node's two ranks sends one number to three others.
    assert clipped.steps[-1]["control_bytes"] - free.steps[-1]["control_bytes"] == 2 * 3 * 8
