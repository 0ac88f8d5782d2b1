# SPDX-License-Identifier: Apache-2.0
"""Reductions that send values in 8 or 4 bits: deterministic, of an exact size, and near the losses of exact ones."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from closed_forms import buckets, traffic
from expectations import LIVE_RANGES
from harness import Config, ToolError, Workshop, assert_bit_equal, read_log, read_plan, relative_error, run_command, tool

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS = 6

PLAIN = Config("gpt", reduce_wire="int8")
SHORT = Config("gpt_bf16", master="f32", optimizer="adamw,lr=1e-4,eps=1e-3", reduce_wire="int8")

CONFIGS = [
    PLAIN,
    replace(PLAIN, reduce_wire="int4"),
    SHORT,
    replace(SHORT, reduce_wire="int4", wire="delta"),
    replace(SHORT, reduce_dtype="f32", wire="delta"),
    replace(PLAIN, micro_batches=3),
    replace(PLAIN, micro_batches=2, accumulate="node", clip_norm=0.5),
    replace(SHORT, micro_batches=2, accumulate="full", reduce_wire="int4"),
    replace(PLAIN, nodes=3, local=1, prefetch=2),
    replace(PLAIN, loss_scale=True),
    replace(PLAIN, strategy="hsdp"),
]


def message_bytes(wire: str, values: int) -> int:
    """A header of 64 bytes, and for each block 2 bytes and its codes, rounded up."""
    block, codes = {"int8": (256, 256), "int4": (128, 64)}[wire]
    return -(-(64 + -(-values // block) * (2 + codes)) // 64) * 64 if values else 0


def exact(config: Config) -> Config:
    return replace(config, reduce_wire="")


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_losses_are_near_those_of_exact_reductions(workshop: Workshop, config: Config) -> None:
    quantised, plain = workshop.run(config, STEPS), workshop.run(exact(config), STEPS)
    assert relative_error(quantised.losses, plain.losses) < (0.02 if config.reduce_wire == "int4" else 0.005)
    # The first loss is of the same parameters; then the updates differ.
    assert quantised.losses[0] == plain.losses[0]
    assert quantised.parameters.read_bytes() != plain.parameters.read_bytes()


@pytest.mark.parametrize("wire", ["int8", "int4"])
@pytest.mark.parametrize("strategy", ["zero2", "zero3", "hpz"])
def test_strategies_with_equal_reductions_are_bit_equal(workshop: Workshop, wire: str, strategy: str) -> None:
    config = replace(PLAIN, reduce_wire=wire, micro_batches=2)
    assert_bit_equal(workshop.run(replace(config, strategy=strategy), STEPS), workshop.run(config, STEPS))


@pytest.mark.parametrize("wire", ["int8", "int4"])
def test_runs_repeat_bit_for_bit(workshop: Workshop, wire: str) -> None:
    config = replace(SHORT, reduce_wire=wire, wire="delta")
    again = workshop.run_object(workshop.step(config), config, STEPS, f"{config.name}-again")
    assert_bit_equal(again, workshop.run(config, STEPS))


@pytest.mark.parametrize("config", [PLAIN, CONFIGS[1], CONFIGS[5], CONFIGS[8]], ids=lambda config: config.name)
def test_bytes_are_those_of_the_closed_form(workshop: Workshop, config: Config) -> None:
    plan = read_plan(workshop.step(config))
    _, expected = traffic(plan, config.strategy, LIVE_RANGES[config.model])
    inter = expected.inter
    for bucket in buckets(plan):
        part = bucket.reduce_bytes // config.world
        saved = part - message_bytes(config.reduce_wire, part // 4)
        inter -= config.micro_batches * config.local * config.nodes * (config.nodes - 1) * saved // config.nodes
    assert {step.inter for step in workshop.run(config, STEPS).traffic} == {inter}


def test_residuals_are_planned_as_host_memory(workshop: Workshop) -> None:
    plan, plain = (read_plan(workshop.step(config)) for config in (PLAIN, exact(PLAIN)))
    residuals = 0
    for bucket in plan["buckets"]:
        residual = bucket["states"]["residual"]
        assert residual["arena"] == "host"
        assert residual["bytes"] == 4 * bucket["elements"] // PLAIN.local
        residuals += residual["bytes"] * PLAIN.local
    assert 0 <= plan["host_bytes"] - plain["host_bytes"] - residuals < 64 * PLAIN.local * len(plan["buckets"])


def test_frozen_parameters_have_no_residual(workshop: Workshop) -> None:
    plan = read_plan(workshop.step(Config("peft_lora", reduce_wire="int8")))
    for bucket in plan["buckets"]:
        assert ("residual" in bucket["states"]) == bool(bucket.get("trainable"))


def test_resumed_runs_start_without_a_residual(workshop: Workshop, tmp_path: Path) -> None:
    """Checkpoints do not have it, so the losses differ from those of a run without a break, but hardly."""
    model, step = workshop.model(PLAIN.model), workshop.step(PLAIN)
    saved, log = tmp_path / "saved", tmp_path / "log.jsonl"
    tool(*run_command(step, model.archive, model.inputs, 3, f"--save-dir={saved}"))
    said = tool(*run_command(step, model.archive, model.inputs, STEPS, f"--resume={saved}", f"--json={log}"))
    assert "it starts as zeros" in said
    whole = workshop.run(PLAIN, STEPS).losses
    resumed = [line["loss"] for line in read_log(log) if "loss" in line]
    assert np.allclose(resumed, whole[3:], rtol=1e-3)
    assert resumed[0] == whole[3]
    assert resumed != whole[3:]


def test_one_node_has_no_wire(workshop: Workshop) -> None:
    config = replace(PLAIN, nodes=1, local=2)
    assert workshop.step(config).read_bytes() == workshop.step(exact(config)).read_bytes()


def test_an_unknown_wire_is_refused(workshop: Workshop) -> None:
    with pytest.raises(ToolError, match="expected 'raw', 'coded', 'int8' or 'int4', got 'int2'"):
        workshop.step(replace(PLAIN, reduce_wire="int2"))
