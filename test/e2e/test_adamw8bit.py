# SPDX-License-Identifier: Apache-2.0
"""AdamW with moments in 8 bits trains as its reference, fcdp.optimizers.AdamW8bit, with blocks that no shard splits."""

from collections.abc import Iterable
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest
import torch
from torch import nn

import fcdp
from checkpoints import read_checkpoint
from closed_forms import state_bytes, traffic
from expectations import LIVE_RANGES, LOSS_TOLERANCE
from fcdp.checkpoint.cli import main
from fcdp.optimizers import AdamW8bit, decode
from harness import Config, Workshop, read_plan, relative_error, run_command, tool
from models import build
from optimizer_checks import (
    EVERYTHING,
    STEPS,
    assert_checkpoints_go_on,
    assert_converts,
    assert_layout_is_bit_equal,
    assert_planned_memory,
    assert_strategy_is_bit_equal,
    each_layout,
    each_strategy,
    skip_overflowing_steps,
)
from test_loop import train

OPTIMIZER = "adamw8bit,lr=1e-3,eps=1e-3"
CONFIG = Config("gpt", optimizer=OPTIMIZER)
FULL = replace(
    EVERYTHING,
    optimizer=OPTIMIZER,
    groups=("*.bias,*ln*:weight_decay=0", "*up.weight:lr=0.25", "*qkv.weight:optimizer=adamw"),
)
CODES = {"exp_avg_code", "exp_avg_scale", "exp_avg_sq_code", "exp_avg_sq_scale"}


def is_coded(value: torch.Tensor) -> bool:
    return value.numel() >= 4096 and value.numel() % 256 == 0


@pytest.mark.parametrize("model", ["gpt", "hf_llama"])
def test_one_rank_trains_as_the_reference(workshop: Workshop, tmp_path: Path, model: str) -> None:
    config = Config(model, 1, 1, optimizer=OPTIMIZER)
    given, network = workshop.model(model), build(model)
    optimizers: list[AdamW8bit] = []

    def make(trained: Iterable[nn.Parameter]) -> AdamW8bit:
        optimizers.append(AdamW8bit(trained, lr=1e-3, eps=1e-3))
        return optimizers[0]

    losses = fcdp.reference(network, fcdp.batches_from_npy(given.inputs, 1, 1), make, STEPS, seed=0)
    tool(*run_command(workshop.step(config), given.archive, given.inputs, STEPS, f"--save-dir={tmp_path}"))
    states = read_checkpoint(tmp_path / f"step-{STEPS:08}").states
    assert relative_error(workshop.run(config, STEPS).losses, losses) <= LOSS_TOLERANCE[model]
    different = total = 0
    for name, value in network.named_parameters():
        torch.testing.assert_close(states["value", name], value.detach(), rtol=1e-4, atol=2e-5)
        roles = {role for role, other in states if other == name} - {"value"}
        assert roles == (CODES if is_coded(value) else {"exp_avg", "exp_avg_sq"}), name
        expected = optimizers[0].state[value]
        if not is_coded(value):
            continue
        for moment, signed in (("exp_avg", True), ("exp_avg_sq", False)):
            code, scale = states[f"{moment}_code", name], states[f"{moment}_scale", name]
            assert code.dtype == torch.uint8 and code.shape == value.shape and scale.shape == (value.numel() // 256,)
            torch.testing.assert_close(scale, expected[f"{moment}_scale"], rtol=1e-3, atol=1e-9)
            # A moment in the middle of two numbers may become either.
            different += int((code != expected[f"{moment}_code"]).sum())
            total += code.numel()
            assert decode(code, scale, signed).any()
    assert 0 < total and different <= 0.02 * total


def test_it_is_nearly_adamw(workshop: Workshop) -> None:
    """8 bits make a difference, but a small one."""
    plain = replace(CONFIG, optimizer=OPTIMIZER.replace("8bit", ""))
    ours, theirs = workshop.run(CONFIG, STEPS), workshop.run(plain, STEPS)
    assert ours.losses[0] == theirs.losses[0] and ours.losses != theirs.losses
    assert relative_error(ours.losses, theirs.losses) <= 1e-3


@pytest.mark.parametrize("config", [FULL, CONFIG], ids=["full", "plain"])
@each_strategy
def test_strategies_are_bit_equal(workshop: Workshop, config: Config, strategy: str) -> None:
    assert_strategy_is_bit_equal(workshop, config, strategy)


@each_layout
def test_layouts_are_bit_equal(workshop: Workshop, other: dict[str, object]) -> None:
    assert_layout_is_bit_equal(workshop, CONFIG, other)


def test_buckets_and_bytes(workshop: Workshop) -> None:
    plan = read_plan(workshop.step(CONFIG))
    once, each = traffic(plan, CONFIG.strategy, LIVE_RANGES["gpt"])
    assert workshop.run(CONFIG, STEPS).traffic == [once + each] + [each] * (STEPS - 1)
    coded = 0
    for index, bucket in enumerate(plan["buckets"]):
        is_coded_bucket = bucket["name"].endswith(".adamw8bit")
        expected = state_bytes(bucket, "adamw8bit" if is_coded_bucket else "adamw", 4)
        assert {role: bucket["states"][role]["bytes"] for role in expected} == expected
        assert not set(bucket["states"]) - set(expected) - {"cache", "resident"}
        for parameter in plan["parameters"]:
            if parameter["bucket"] == index:
                assert is_coded_bucket == is_coded(torch.empty(parameter["shape"]))
                assert not is_coded_bucket or parameter["offset_elements"] % 256 == 0
                coded += is_coded_bucket * prod(parameter["shape"])
        assert not is_coded_bucket or bucket["shard_elements"] % 256 == 0
    assert coded > 90_000


def test_planned_memory_is_measured(workshop: Workshop) -> None:
    for config in (CONFIG, replace(FULL, master="")):
        assert_planned_memory(workshop, config)


def test_checkpoints_go_on_elsewhere(
    workshop: Workshop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = [replace(FULL, nodes=1, local=1, strategy="zero3"), replace(FULL, nodes=1, local=3, layout="owned")]
    half = assert_checkpoints_go_on(workshop, tmp_path, FULL, others, {"value", "master", "exp_avg", "exp_avg_sq"} | CODES, "exp_avg_code")
    assert main(["inspect", str(half)]) == 0
    assert "exp_avg_sq_scale" in capsys.readouterr().out
    assert_converts(half, tmp_path, f"--optimizer={OPTIMIZER}")


def test_steps_that_overflow_are_skipped(workshop: Workshop, tmp_path: Path) -> None:
    first, last = skip_overflowing_steps(workshop, OPTIMIZER, tmp_path)
    coded = [name for role, name in first if role == "exp_avg_scale"]
    assert coded
    for name in coded:
        assert not first["exp_avg_scale", name].any() and last["exp_avg_scale", name].any()
        assert last["master", name].isfinite().all()


def test_loop_of_pytorch(workshop: Workshop, tmp_path: Path) -> None:
    """The states of the loop are those of the checkpoint, and can be set again."""
    config = replace(CONFIG, nodes=1, local=2)
    expected = workshop.run(config, STEPS)
    assert train(workshop, config, (0, 2), tmp_path / "run") == expected.losses[:2]
    assert train(workshop, config, (2, STEPS), tmp_path / "run") == expected.losses[2:]
