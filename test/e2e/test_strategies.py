# SPDX-License-Identifier: Apache-2.0
"""The strategies beside zero3 and fcdp, and the modes of gradient accumulation."""

from dataclasses import replace

import pytest

from closed_forms import ACCUMULATION, SHARDING, buckets, traffic
from expectations import LIVE_RANGES, LOSS_TOLERANCE
from harness import Config, Workshop, assert_bit_equal, read_plan, relative_error

STEPS = 3
# Frozen parameters; bfloat16 on the wire between float32 sums; several micro-batches; one rank a node, and one node.
CASES = [
    Config("gpt"),
    Config("peft_lora", micro_batches=2),
    Config("gpt_bf16", micro_batches=3),
    Config("gpt", micro_batches=3),
    Config("gpt", 2, 1, micro_batches=2),
    Config("gpt", 1, 2, micro_batches=2),
]
CHOICES = [("zero1", ""), ("zero2", ""), ("hpz", ""), ("fcdp", "node"), ("zero3", "full"), ("fcdp", "node_host")]
# Each rank owns more than a shard.
CHOICES += [("ddp", ""), ("ddp", "full"), ("hsdp", ""), ("mics", ""), ("mics", "node_host")]


def identify(value: Config | tuple[str, str]) -> str:
    if isinstance(value, Config):
        return f"{value.model}-{value.nodes}x{value.local}-k{value.micro_batches}"
    return "-".join(filter(None, value))


@pytest.fixture(params=CASES, ids=identify)
def case(request: pytest.FixtureRequest) -> Config:
    return request.param


@pytest.fixture(params=CHOICES, ids=identify)
def config(request: pytest.FixtureRequest, case: Config) -> Config:
    strategy, accumulate = request.param
    return replace(case, strategy=strategy, accumulate=accumulate)


def test_bytes_are_the_closed_forms(workshop: Workshop, config: Config) -> None:
    described = read_plan(workshop.step(config))
    once, each = traffic(described, config.strategy, LIVE_RANGES[config.model], config.accumulate)
    assert workshop.run(config, STEPS).traffic == [once + each] + [each] * (STEPS - 1)


def test_bit_equal_within_an_accumulation_mode(workshop: Workshop, config: Config) -> None:
    mode = config.accumulate or ACCUMULATION.get(config.strategy, "sharded")
    same = replace(config, strategy="zero3" if config.strategy != "zero3" else "fcdp", accumulate=mode)
    assert_bit_equal(workshop.run(config, STEPS), workshop.run(same, STEPS))


@pytest.mark.parametrize("distance", [0, 2])
@pytest.mark.parametrize("strategy", ["zero3", "fcdp", "hpz", "zero2"])
@pytest.mark.parametrize("micro_batches", [1, 4])
def test_nothing_depends_on_what_is_in_flight(
    workshop: Workshop, strategy: str, micro_batches: int, distance: int
) -> None:
    """Copies and sums cross from one function to the next at every distance but 0; bits and bytes are the same."""
    one = Config("gpt", strategy=strategy, micro_batches=micro_batches)
    runs = [workshop.run(config, STEPS) for config in (one, replace(one, prefetch=distance))]
    assert_bit_equal(*runs)
    assert runs[0].traffic == runs[1].traffic
    once, each = traffic(read_plan(workshop.step(one)), strategy, LIVE_RANGES["gpt"], "")
    assert runs[0].traffic == [once + each] + [each] * (STEPS - 1)


def test_losses_are_those_of_pytorch(workshop: Workshop, config: Config) -> None:
    expected = workshop.reference(config, STEPS).losses
    assert relative_error(workshop.run(config, STEPS).losses, expected) <= LOSS_TOLERANCE[config.model]


@pytest.mark.parametrize("strategy", SHARDING)
def test_what_leaves_a_node_is_twice_the_gradients(workshop: Workshop, strategy: str) -> None:
    """The design's form for f32, 2 A sum(R Wr), and no parameter crosses."""
    config = Config("gpt", strategy=strategy, micro_batches=3)
    each_time = 3 if ACCUMULATION.get(strategy, "sharded") == "sharded" else 1
    gradients = sum(bucket.reduce_bytes for bucket in buckets(read_plan(workshop.step(config))))
    sent = [step.inter for step in workshop.run(config, STEPS).traffic]
    assert sent == [2 * each_time * gradients // 2] * STEPS


@pytest.mark.parametrize(("strategy", "ranks"), [("ddp", 1), ("hsdp", 2), ("mics", 2), ("zero3", 4)])
def test_a_rank_stores_what_it_owns(workshop: Workshop, strategy: str, ranks: int) -> None:
    described = read_plan(workshop.step(Config("gpt", strategy=strategy)))
    for bucket in described["buckets"]:
        for state in ("shard", "grad", "exp_avg", "exp_avg_sq"):
            assert bucket["states"][state]["bytes"] == 4 * bucket["elements"] // ranks


def test_one_micro_batch_has_one_mode(workshop: Workshop) -> None:
    runs = [workshop.run(Config("gpt", accumulate=mode), STEPS) for mode in ("", "node", "node_host", "full")]
    for run in runs[1:]:
        assert_bit_equal(runs[0], run)


@pytest.mark.parametrize("model", ["gpt", "gpt_bf16"])
def test_sums_in_host_memory_are_those_on_the_device(workshop: Workshop, model: str) -> None:
    runs = [workshop.run(Config(model, micro_batches=4, accumulate=mode), STEPS) for mode in ("node", "node_host")]
    assert_bit_equal(*runs)


def test_modes_need_the_memory_that_they_sum_in(workshop: Workshop) -> None:
    """Sums within a node are slices, sums of a rank are whole."""

    def bytes_of(mode: str) -> int:
        described = read_plan(workshop.step(Config("gpt", micro_batches=3, accumulate=mode)))
        keys = {"node": "node_grad", "full": "full_grad"}
        return sum(bucket["states"][keys[mode]]["bytes"] for bucket in described["buckets"])

    described = read_plan(workshop.step(Config("gpt", micro_batches=3)))
    whole = sum(4 * bucket["elements"] for bucket in described["buckets"])
    assert (bytes_of("node"), bytes_of("full")) == (whole // 2, whole)


def test_sums_in_host_memory_stand_there(workshop: Workshop) -> None:
    """Each rank of a node has its slice, at a multiple of 256 bytes, in the memory that they share."""
    device, host = (
        read_plan(workshop.step(Config("gpt", micro_batches=3, accumulate=mode))) for mode in ("node", "node_host")
    )
    slices = [4 * bucket["elements"] // 2 for bucket in device["buckets"]]
    assert host["host_bytes"] - device["host_bytes"] == sum(2 * -(-size // 256) * 256 for size in slices)
    for bucket in host["buckets"]:
        assert bucket["states"]["host_grad"]["arena"] == "host"
        assert {state for state in bucket["states"] if state.endswith("grad")} == {"grad", "host_grad"}
