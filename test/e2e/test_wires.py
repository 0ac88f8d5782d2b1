# SPDX-License-Identifier: Apache-2.0
"""Coded wires: gathers that send differences, and reductions that code exponents, give the bits of raw ones."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from closed_forms import buckets, message_capacity, traffic
from evaluated import evaluation_data, step_with_evaluation
from expectations import LIVE_RANGES
from harness import Config, ToolError, Workshop, assert_bit_equal, compile_command, read_plan, run_command, tool

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS = 4

PLAIN = Config("gpt_bf16", master="f32", optimizer="adamw,lr=1e-4,eps=1e-3")
BOTH = replace(PLAIN, wire="delta", reduce_wire="coded")

CONFIGS = [
    BOTH,
    replace(BOTH, reduce_wire=""),
    replace(BOTH, wire=""),
    replace(BOTH, master=""),
    replace(BOTH, micro_batches=3),
    replace(BOTH, micro_batches=2, accumulate="node", clip_norm=0.5),
    replace(BOTH, micro_batches=2, accumulate="full", remat="unit"),
    replace(BOTH, nodes=4, local=1),
    replace(BOTH, nodes=3, local=2, prefetch=2),
    replace(BOTH, reduce_dtype="f32"),
    Config("gpt_autocast", optimizer=PLAIN.optimizer, wire="delta", reduce_wire="coded"),
    Config("gpt", reduce_wire="coded"),
    Config("gpt", strategy="hsdp", reduce_wire="coded"),
]


def raw(config: Config) -> Config:
    return replace(config, wire="", reduce_wire="")


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_losses_and_parameters_are_those_of_raw_wires(workshop: Workshop, config: Config) -> None:
    coded, plain = workshop.run(config, STEPS), workshop.run(raw(config), STEPS)
    assert_bit_equal(coded, plain)
    for ours, theirs in zip(coded.traffic[1:], plain.traffic[1:]):
        assert ours.inter < theirs.inter
        assert ours.intra == theirs.intra


@pytest.mark.parametrize("config", [BOTH, CONFIGS[4]], ids=lambda config: config.name)
def test_bytes_are_at_most_those_of_the_closed_forms(workshop: Workshop, config: Config) -> None:
    """The bytes that nodes send have a bound, and the bytes that cross a host's memory are exact: each gather keeps the
    values that the next refers to."""
    plan = read_plan(workshop.step(config))
    _, expected = traffic(plan, config.strategy, LIVE_RANGES[config.model])
    nodes, ranks = config.nodes, config.world
    most, kept = expected.inter, expected.d2h
    for bucket in buckets(plan):
        uses = LIVE_RANGES[config.model][bucket.unit] * config.micro_batches
        sent = [bucket.gather_bytes // ranks] + [bucket.reduce_bytes // ranks] * config.micro_batches
        most += sum(config.local * (nodes - 1) * (message_capacity(part) - part) for part in sent)
        kept += bucket.gather_bytes if uses == 1 else 0
    run = workshop.run(config, STEPS)
    planned = sum(function["expected"]["inter_bytes"] * times for function, times in functions_of_a_step(plan))
    assert planned == most
    for step in run.traffic:
        assert step.inter <= most
        assert step.d2h == kept
        assert step.h2d == expected.h2d
    # The first gather has nothing to refer to. Gradients have been coded, too.
    assert all(later.inter < run.traffic[0].inter for later in run.traffic[1:])


def functions_of_a_step(plan: dict) -> list[tuple[dict, int]]:
    """Functions of a step of K micro-batches, with how often each runs."""
    between = plan["micro_batches"] - 2
    times = {"only_microbatch": 1, "first_microbatch": 1, "next_microbatch": between, "last_microbatch": 1, "update": 1}
    return [(f, times[f["role"]]) for f in plan["functions"] if f["role"] in times]


def test_a_step_without_an_update_sends_hardly_anything(workshop: Workshop, tmp_path: Path) -> None:
    """At a learning rate of 0 no parameter changes, so each message of a gather has its headers and little else."""
    config = replace(PLAIN, optimizer="adamw,lr=0,weight_decay=0", wire="delta")
    run = workshop.run(config, 3)
    plan = read_plan(workshop.step(config))
    gathered = sum(bucket.gather_bytes for bucket in buckets(plan)) // 2
    reduced = sum(bucket.reduce_bytes for bucket in buckets(plan)) // 2
    first, *later = (step.inter - reduced for step in run.traffic)
    assert first >= gathered
    assert all(0 < step < 0.02 * gathered for step in later)


def test_resumed_runs_continue_bit_for_bit(workshop: Workshop, tmp_path: Path) -> None:
    """The first gather after a resume has no reference, whatever the run before had."""
    model, step = workshop.model(BOTH.model), workshop.step(BOTH)
    whole = workshop.run(BOTH, 6)
    saved, out = tmp_path / "saved", tmp_path / "resumed.safetensors"
    tool(*run_command(step, model.archive, model.inputs, 3, f"--save-dir={saved}"))
    tool(*run_command(step, model.archive, model.inputs, 6, f"--resume={saved}", f"--params-out={out}"))
    assert out.read_bytes() == whole.parameters.read_bytes()


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_evaluations_refer_to_what_steps_gather(workshop: Workshop, tmp_path: Path, micro_batches: int) -> None:
    """And steps to what evaluations gather: both fill the same slices in host memory."""
    losses = []
    for config in (replace(BOTH, micro_batches=micro_batches), replace(PLAIN, micro_batches=micro_batches)):
        log, out = tmp_path / "log.jsonl", tmp_path / f"{config.wire}.safetensors"
        _, inputs = evaluation_data(workshop, config.model)
        model, step = workshop.model(config.model), step_with_evaluation(workshop, config)
        given = [f"--eval-input={name}={path}" for name, path in inputs.items()]
        tool(*run_command(step, model.archive, model.inputs, STEPS, f"--json={log}", f"--params-out={out}", "--eval-every=2", *given))
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        losses.append([(line.get("loss"), line.get("evaluation_loss")) for line in lines] + [out.read_bytes()])
    assert losses[0] == losses[1]


def test_one_node_has_no_wire(workshop: Workshop) -> None:
    config = replace(BOTH, nodes=1, local=2)
    assert workshop.step(config).read_bytes() == workshop.step(raw(config)).read_bytes()


def test_a_model_in_float32_is_refused(workshop: Workshop) -> None:
    with pytest.raises(ToolError, match="wire 'delta' is for trained parameters that are gathered in bf16 or f16"):
        workshop.step(Config("gpt", wire="delta"))


def test_a_strategy_without_host_memory_is_refused(workshop: Workshop) -> None:
    with pytest.raises(ToolError, match="the strategy 'fcdp'"):
        workshop.step(replace(PLAIN, strategy="zero3", wire="delta"))


def test_auto_follows_the_link(workshop: Workshop, tmp_path: Path) -> None:
    """Coding pays on a slow link, and not where a link is faster than the codec."""
    archive = workshop.model(PLAIN.model).archive
    preset = (Path(__file__).parents[2] / "cluster/cpu.yaml").read_text()
    for bandwidth, chosen in (("25e6", replace(PLAIN, wire="delta")), ("400e9", PLAIN)):
        cluster, out = tmp_path / f"{bandwidth}.yaml", tmp_path / f"{bandwidth}.so"
        text, count = re.subn(r"(inter:\n  bandwidth: )\S+", rf"\g<1>{bandwidth}", preset)
        assert count == 1
        cluster.write_text(text)
        tool(*compile_command(replace(PLAIN, wire="auto"), archive, out), f"--cluster={cluster}")
        assert out.read_bytes() == workshop.step(chosen).read_bytes()
