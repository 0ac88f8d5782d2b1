# SPDX-License-Identifier: Apache-2.0
"""Layouts with blocks that stay on one rank, and buckets of several units."""

from dataclasses import replace
from math import prod

import pytest
import torch

from closed_forms import buckets, traffic
from expectations import LIVE_RANGES
from harness import Config, Run, Workshop, read_plan, parameters, relative_error

STEPS = 3
FLAT = Config("gpt")
LORA = Config("peft_lora")
LAYOUTS = ["ragged<1>", "ragged<16>", "owned"]
# Two embeddings fit in a merged bucket, and a norm and the head, whose uses touch; blocks do not.
MERGED = replace(FLAT, bucket_bytes=40_000)
MERGED_RANGES = {"wte..wpe": 1, "blocks.0": 2, "blocks.1": 2, "ln_f..lm_head": 1}
ALL = replace(FLAT, bucket_bytes=1_000_000)
ALL_RANGES = {"wte..lm_head": 1}


def assert_same_training(one: Run, other: Run) -> None:
    """Bit for bit; the files' order is that of the buckets."""
    assert one.losses == other.losses
    expected = parameters(other.parameters)
    actual = parameters(one.parameters)
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(actual[name], value), name


def block_of(layout: str, shape: list[int]) -> int:
    """Elements that stay together."""
    if layout == "owned":
        return prod(shape) if len(shape) == 2 else 1
    return int(layout.removeprefix("ragged<").removesuffix(">")) * prod(shape[1:])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_shard_begins_inside_a_block(workshop: Workshop, layout: str) -> None:
    made = read_plan(workshop.step(replace(FLAT, layout=layout)))
    cuts = 0
    for parameter in made["parameters"]:
        begin = parameter["offset_elements"]
        shard = made["buckets"][parameter["bucket"]]["shard_elements"]
        for boundary in range(begin // shard * shard + shard, begin + prod(parameter["shape"]), shard):
            assert (boundary - begin) % block_of(layout, parameter["shape"]) == 0, parameter["names"][0]
            cuts += 1
    assert layout == "owned" or cuts > 10


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_are_bit_equal(workshop: Workshop, layout: str) -> None:
    assert_same_training(workshop.run(replace(FLAT, layout=layout), STEPS), workshop.run(FLAT, STEPS))


@pytest.mark.parametrize("config", [replace(FLAT, layout="owned"), replace(MERGED, layout="ragged<16>"), ALL])
def test_losses_are_those_of_pytorch(workshop: Workshop, config: Config) -> None:
    assert relative_error(workshop.run(config, STEPS).losses, workshop.reference(config, STEPS).losses) <= 1e-5


@pytest.mark.parametrize("config", [MERGED, replace(MERGED, strategy="zero3", layout="owned"), ALL])
def test_merged_buckets_are_bit_equal(workshop: Workshop, config: Config) -> None:
    assert_same_training(workshop.run(config, STEPS), workshop.run(FLAT, STEPS))


@pytest.mark.parametrize("strategy", ["zero3", "fcdp"])
@pytest.mark.parametrize(
    "config, live_ranges",
    [(MERGED, MERGED_RANGES), (ALL, ALL_RANGES), (replace(FLAT, layout="owned"), LIVE_RANGES["gpt"])],
    ids=["merged", "all", "owned"],
)
def test_bytes_are_the_closed_forms(
    workshop: Workshop, config: Config, live_ranges: dict[str, int], strategy: str
) -> None:
    config = replace(config, strategy=strategy)
    made = read_plan(workshop.step(config))
    assert {bucket.unit for bucket in buckets(made)} == live_ranges.keys()
    once, each = traffic(made, strategy, live_ranges)
    assert workshop.run(config, STEPS).traffic == [once + each] + [each] * (STEPS - 1)


def test_adapters_are_gathered_no_more_often(workshop: Workshop) -> None:
    """All layers are one bucket, gathered once in each pass, although frozen buckets are used in between."""
    config = replace(LORA, strategy="zero3", bucket_bytes=20_000)
    made = read_plan(workshop.step(config))
    layers = "base_model.model.model.layers"
    trained = [bucket for bucket in buckets(made) if bucket.trainable]
    assert [bucket.unit for bucket in trained] == [f"{layers}.0..{layers}.1"]
    live_ranges = {**LIVE_RANGES["peft_lora"], trained[0].unit: 2}
    once, each = traffic(made, "zero3", live_ranges)
    run = workshop.run(config, STEPS)
    assert run.traffic == [once + each] + [each] * (STEPS - 1)
    assert_same_training(run, workshop.run(LORA, STEPS))


def test_clipping_rounds_otherwise(workshop: Workshop) -> None:
    """Squares are summed by shard: the norm's last bits depend on where shards begin."""
    clipped = replace(FLAT, optimizer="sgd,lr=0.5", clip_norm=0.05)
    expected = workshop.run(clipped, STEPS).losses
    for config in (replace(clipped, layout="owned"), replace(clipped, bucket_bytes=40_000)):
        assert relative_error(workshop.run(config, STEPS).losses, expected) <= 1e-6
