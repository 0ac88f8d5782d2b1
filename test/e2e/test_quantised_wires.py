# SPDX-License-Identifier: Apache-2.0
"""Reductions that send values in 8 or 4 bits: deterministic, of an exact size, and near the losses of exact ones."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from checkpoints import read_checkpoint
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


def train(workshop: Workshop, config: Config, run: Path, steps: int, *extra: str | Path) -> str:
    model = workshop.model(config.model)
    command = run_command(workshop.step(config), model.archive, model.inputs, steps, f"--save-dir={run}", *extra)
    return tool(*command)


RESUMED = [CONFIGS[0], CONFIGS[3], CONFIGS[6], CONFIGS[8], CONFIGS[10]]


@pytest.mark.parametrize("config", RESUMED, ids=lambda config: config.name)
def test_resumed_runs_go_on_bit_for_bit(workshop: Workshop, tmp_path: Path, config: Config) -> None:
    log, run, out = tmp_path / "log.jsonl", tmp_path / "run", tmp_path / "parameters.safetensors"
    train(workshop, config, run, 3)
    said = train(workshop, config, run, STEPS, "--resume", f"--json={log}", f"--params-out={out}")
    assert "left out" not in said
    whole = workshop.run(config, STEPS)
    assert [line["loss"] for line in read_log(log) if "loss" in line] == whole.losses[3:]
    assert out.read_bytes() == whole.parameters.read_bytes()
    saved = read_checkpoint(run / "step-00000003")
    residuals = [value for (role, _, _), value in saved.own.items() if role == "residual"]
    assert len(residuals) % config.nodes == 0
    assert any(value.any() for value in residuals)


def test_another_strategy_goes_on_with_the_same_residuals(workshop: Workshop, tmp_path: Path) -> None:
    train(workshop, PLAIN, tmp_path / "run", 3)
    log = tmp_path / "log.jsonl"
    train(workshop, replace(PLAIN, strategy="zero3"), tmp_path / "run", STEPS, "--resume", f"--json={log}")
    assert [line["loss"] for line in read_log(log) if "loss" in line] == workshop.run(PLAIN, STEPS).losses[3:]


def total_residuals(path: Path) -> dict[str, torch.Tensor]:
    """Returns what all nodes have left out of each parameter's mean gradient."""
    saved = read_checkpoint(path)
    totals: dict[str, torch.Tensor] = {}
    for (role, name, _), value in saved.own.items():
        if role == "residual":
            totals[name] = totals.get(name, torch.zeros_like(value)) + value / saved.index["world_size"]
    return totals


@pytest.mark.parametrize(
    "target",
    [replace(PLAIN, nodes=4, local=1), replace(PLAIN, nodes=3, local=1), replace(PLAIN, layout="owned")],
    ids=lambda config: config.name,
)
@pytest.mark.parametrize("source", [PLAIN, replace(PLAIN, nodes=3, local=1, reduce_wire="int4")], ids=lambda config: config.name)
def test_other_nodes_and_layouts_have_the_same_residuals_in_sum(
    workshop: Workshop, tmp_path: Path, source: Config, target: Config
) -> None:
    train(workshop, source, tmp_path / "first", 3)
    said = train(workshop, target, tmp_path / "second", 3, f"--resume={tmp_path / 'first'}")
    is_equal = (source.nodes, source.local, source.layout) == (target.nodes, target.local, target.layout)
    assert ("move to the nodes of this job, with the same sum" in said) != is_equal
    first, second = (total_residuals(tmp_path / name / "step-00000003") for name in ("first", "second"))
    assert first.keys() == second.keys()
    assert first
    for name, value in first.items():
        assert value.any()
        torch.testing.assert_close(second[name], value, rtol=1e-5, atol=1e-9)


def test_residuals_on_one_side_only(workshop: Workshop, tmp_path: Path) -> None:
    train(workshop, exact(PLAIN), tmp_path / "exact", 3)
    said = train(workshop, PLAIN, tmp_path / "quantised", STEPS, f"--resume={tmp_path / 'exact'}")
    assert "they start as zeros" in said
    said = train(workshop, exact(PLAIN), tmp_path / "again", STEPS, f"--resume={tmp_path / 'quantised'}")
    assert "their residuals in the checkpoint are lost" in said


def test_one_node_has_no_wire(workshop: Workshop) -> None:
    config = replace(PLAIN, nodes=1, local=2)
    assert workshop.step(config).read_bytes() == workshop.step(exact(config)).read_bytes()


def test_an_unknown_wire_is_refused(workshop: Workshop) -> None:
    with pytest.raises(ToolError, match="expected 'auto', 'raw', 'coded', 'int8' or 'int4', got 'int2'"):
        workshop.step(replace(PLAIN, reduce_wire="int2"))
