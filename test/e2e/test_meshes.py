# SPDX-License-Identifier: Apache-2.0
"""Other numbers of nodes, ranks and micro-batches than 2 x 2 x 1."""

from dataclasses import replace

import pytest

from closed_forms import traffic
from expectations import LIVE_RANGES
from harness import Config, Workshop, assert_bit_equal, read_plan, relative_error

STEPS = 3
MESHES = [(1, 1), (1, 2), (2, 1), (3, 1), (1, 3), (3, 2)]
CASES = [
    Config(model, nodes, local)
    for model in ("gpt", "tiny_params")  # tiny_params has fewer elements than ranks
    for nodes, local in MESHES
] + [Config("gpt", micro_batches=count) for count in (2, 3, 4)]


@pytest.fixture(params=CASES, ids=lambda c: f"{c.model}-{c.nodes}x{c.local}-k{c.micro_batches}")
def config(request: pytest.FixtureRequest) -> Config:
    return request.param


def test_losses_are_those_of_pytorch(workshop: Workshop, config: Config) -> None:
    expected = workshop.reference(config, STEPS).losses
    assert relative_error(workshop.run(config, STEPS).losses, expected) <= 1e-5


def test_strategies_are_bit_equal(workshop: Workshop, config: Config) -> None:
    assert_bit_equal(workshop.run(config, STEPS), workshop.run(replace(config, strategy="zero3"), STEPS))


def test_what_the_mesh_changes(workshop: Workshop) -> None:
    """Sums run within nodes first: 4 x 1 and 1 x 4 ranks add in one order, and 2 x 2 in another."""
    one_node, nodes, both = (
        workshop.run(Config("gpt", *mesh, optimizer="sgd,lr=0.1"), STEPS) for mesh in ((1, 4), (4, 1), (2, 2))
    )
    assert_bit_equal(one_node, nodes)
    assert relative_error(both.losses, nodes.losses) <= 1e-6


@pytest.mark.parametrize("strategy", ["zero3", "fcdp"])
def test_bytes_are_the_closed_forms(workshop: Workshop, config: Config, strategy: str) -> None:
    config = replace(config, strategy=strategy)
    once, each = traffic(read_plan(workshop.step(config)), strategy, LIVE_RANGES[config.model])
    assert workshop.run(config, STEPS).traffic == [once + each] + [each] * (STEPS - 1)
