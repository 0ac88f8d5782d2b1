# SPDX-License-Identifier: Apache-2.0
"""Collectives over all ranks in one step: the bits of two-level ones, and other bytes."""

from dataclasses import replace

import pytest

from closed_forms import traffic
from expectations import LIVE_RANGES
from harness import Config, Workshop, assert_bit_equal, read_plan

STEPS = 3
# Frozen parameters; bfloat16 on the wire, whose sums are rounded between nodes; sums of several micro-batches; slices
# that are kept or accumulated, which need two levels; gathers after a reduction.
CASES = [
    Config("gpt", strategy="zero3", collectives="flat"),
    Config("gpt", strategy="zero2", clip_norm=0.1, collectives="flat"),
    Config("gpt_bf16", strategy="zero2", micro_batches=3, collectives="flat"),
    Config("gpt_bf16", strategy="zero1", micro_batches=2, collectives="flat"),
    Config("gpt_bf16", strategy="zero3", accumulate="node", micro_batches=2, collectives="flat"),
    Config("peft_lora", strategy="zero2", micro_batches=2, collectives="flat"),
    Config("peft_lora", strategy="fcdp", micro_batches=2, collectives="flat"),
    Config("gpt_bf16", strategy="ddp", collectives="flat"),
    Config("gpt", strategy="hsdp", collectives="flat"),
    Config("gpt_bf16", 2, 3, strategy="zero3", collectives="flat"),
    Config("gpt_bf16", 1, 3, strategy="zero3", collectives="flat"),
]


def identify(config: Config) -> str:
    return config.name


@pytest.fixture(params=CASES, ids=identify)
def config(request: pytest.FixtureRequest) -> Config:
    return request.param


def test_bits_are_those_of_two_levels(workshop: Workshop, config: Config) -> None:
    assert_bit_equal(workshop.run(config, STEPS), workshop.run(replace(config, collectives=""), STEPS))


def test_bytes_are_the_closed_forms(workshop: Workshop, config: Config) -> None:
    once, each = traffic(
        read_plan(workshop.step(config)), config.strategy, LIVE_RANGES[config.model], config.accumulate, "flat"
    )
    assert workshop.run(config, STEPS).traffic == [once + each] + [each] * (STEPS - 1)


def test_a_node_sends_as_many_times_more_as_it_has_ranks(workshop: Workshop) -> None:
    flat = Config("gpt", strategy="zero3", collectives="flat")
    split = replace(flat, collectives="two-level")
    assert [step.inter for step in workshop.run(flat, STEPS).traffic] == [
        flat.local * step.inter for step in workshop.run(split, STEPS).traffic
    ]


def test_axes_are_those_that_are_needed(workshop: Workshop) -> None:
    """The runtime connects no group that a plan does not use."""

    def axes(config: Config) -> set[str]:
        return {op["axis"] for op in read_plan(workshop.step(config))["ops"] if "axis" in op}

    assert axes(Config("gpt", strategy="zero3", collectives="flat")) == {"world"}
    assert axes(Config("gpt", strategy="zero3")) == {"node", "local"}
    assert axes(Config("gpt", strategy="fcdp", collectives="flat")) == {"node", "local", "world"}
