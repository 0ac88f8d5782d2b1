# SPDX-License-Identifier: Apache-2.0
"""Lion with everything that an optimizer goes together with. Its reference is a test of
test/python/test_reference.py."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

import fcdp
from checkpoints import read_checkpoint
from closed_forms import traffic
from expectations import LIVE_RANGES, LOSS_TOLERANCE
from fcdp.checkpoint.cli import main
from fcdp.optimizers import Lion
from harness import LION, Config, Workshop, assert_bit_equal, parameters, read_plan, relative_error, run_command, tool
from models import build
from optimizer_checks import (
    EVERYTHING,
    STEPS,
    WarmUp,
    assert_checkpoints_go_on,
    assert_converts,
    assert_refuses,
    assert_strategy_is_bit_equal,
    each_strategy,
)

RATE = 1e-3
# Members of a bucket take turns in the groups.
FULL = replace(
    EVERYTHING,
    optimizer=LION,
    groups=("*.bias,*ln*:weight_decay=0", "*wte*,*wpe*:lr=0.25"),
)


def assert_close_but_for_signs(values: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    """A sum that is zero but for rounding may have either sign, in one element of a thousand at most."""
    wrong = sum(int((~values[name].isclose(value, rtol=1e-5, atol=1e-7)).sum()) for name, value in expected.items())
    assert wrong <= 1e-3 * sum(value.numel() for value in expected.values())


@pytest.mark.parametrize("model", ["mlp_dropout", "hf_llama"])
def test_one_rank_trains_as_the_reference(workshop: Workshop, tmp_path: Path, model: str) -> None:
    config = Config(model, 1, 1, optimizer=LION)
    given, network = workshop.model(model), build(model)
    data = fcdp.batches_from_npy(given.inputs, 1, 1)
    optimizers: list[Lion] = []

    def make(trained: Iterable[nn.Parameter]) -> Lion:
        optimizers.append(Lion(trained, lr=RATE, weight_decay=0.5))
        return optimizers[0]

    losses = fcdp.reference(network, data, make, STEPS, seed=0)
    tool(*run_command(workshop.step(config), given.archive, given.inputs, STEPS, f"--save-dir={tmp_path}"))
    states = read_checkpoint(tmp_path / f"step-{STEPS:08}").states
    assert {role for role, _ in states} - {"buffer"} == {"value", "exp_avg"}
    assert relative_error(workshop.run(config, STEPS).losses, losses) <= LOSS_TOLERANCE[model]
    named = dict(network.named_parameters())
    assert_close_but_for_signs({name: states["value", name] for name in named}, named)
    moments = {name: optimizers[0].state[value]["exp_avg"] for name, value in named.items()}
    for name, moment in moments.items():
        torch.testing.assert_close(states["exp_avg", name], moment, rtol=1e-4, atol=1e-7)
        assert moment.any(), name


@pytest.mark.parametrize("model", ["mlp_dropout", "hf_llama", "gpt_bf16"])
def test_four_ranks_train_as_the_reference(workshop: Workshop, model: str) -> None:
    config = Config(model, optimizer=LION)
    run = workshop.run(config, STEPS)
    assert relative_error(run.losses, workshop.reference(config, STEPS).losses) <= LOSS_TOLERANCE[model]
    # An element moves by the rate, and by what decays.
    before, after = dict(build(model).named_parameters()), parameters(workshop.run(config, 1).parameters)
    for name, value in after.items():
        moved = (value.double() - before[name].double() * (1 - RATE * 0.5)).abs()
        rounding = 2**-8 if value.dtype == torch.bfloat16 else 2**-23
        assert (moved <= RATE * (1 + 1e-6) + rounding * value.double().abs()).all(), name
        assert moved.max() >= RATE * (1 - 1e-6) - rounding * value.double().abs().max(), name


def test_schedules_groups_and_clipping_are_those_of_the_reference(workshop: Workshop, tmp_path: Path) -> None:
    config = Config(
        "mlp_dropout", optimizer=LION, micro_batches=2, clip_norm=0.5, groups=("*.bias:weight_decay=0", "layers.3.*:lr=0.5")
    )
    given, network = workshop.model(config.model), build(config.model)
    data = fcdp.batches_from_npy(given.inputs, config.world, config.micro_batches)
    groups = [
        {
            "params": [value],
            "lr": RATE if name.endswith("bias") or name.startswith("layers.0") else 0.5 * RATE,
            "weight_decay": 0 if name.endswith("bias") else 0.5,
        }
        for name, value in network.named_parameters()
    ]
    losses = fcdp.reference(
        network,
        data,
        lambda _: Lion(groups),
        STEPS,
        world=config.world,
        seed=0,
        clip_norm=config.clip_norm,
        schedule=lambda optimizer: LambdaLR(optimizer, lambda step: min(1, step / 3)),
    )
    warm_up = WarmUp(workshop, tmp_path)
    values = warm_up.run(config)
    assert relative_error(warm_up.losses(RATE), losses) <= LOSS_TOLERANCE[config.model]
    assert_close_but_for_signs(values, dict(network.named_parameters()))
    # The test can fail: each of these changes what is learned.
    for other in ({"clip_norm": None}, {"groups": ()}):
        values = warm_up.run(replace(config, **other))
        with pytest.raises(AssertionError):
            assert_close_but_for_signs(values, dict(network.named_parameters()))


@pytest.mark.parametrize("config", [FULL, Config("mlp_dropout", optimizer=LION)], ids=["full", "plain"])
@each_strategy
def test_strategies_are_bit_equal(workshop: Workshop, config: Config, strategy: str) -> None:
    assert_strategy_is_bit_equal(workshop, config, strategy)


@pytest.mark.parametrize("other", [{"layout": "owned"}, {"layout": "ragged<8>"}, {"bucket_bytes": 1 << 16}], ids=str)
def test_layouts_are_bit_equal(workshop: Workshop, other: dict[str, object]) -> None:
    assert_bit_equal(workshop.run(FULL, STEPS), workshop.run(replace(FULL, **other), STEPS))


def test_bytes_are_the_closed_forms(workshop: Workshop) -> None:
    once, each = traffic(read_plan(workshop.step(FULL)), FULL.strategy, LIVE_RANGES[FULL.model])
    assert workshop.run(FULL, STEPS).traffic == [once + each] + [each] * (STEPS - 1)


def test_checkpoints_convert_and_go_on_elsewhere(
    workshop: Workshop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = [replace(FULL, nodes=1, local=1, strategy="zero3"), replace(FULL, nodes=1, local=3, layout="owned")]
    half = assert_checkpoints_go_on(workshop, tmp_path, FULL, others, {"value", "master", "exp_avg"}, "exp_avg")
    assert main(["inspect", str(half)]) == 0
    shown = capsys.readouterr().out
    assert "exp_avg" in shown and "exp_avg_sq" not in shown
    assert_converts(half, tmp_path, f"--optimizer={LION}")


def test_other_optimizers_states_are_refused(workshop: Workshop, tmp_path: Path) -> None:
    lion, adamw = (Config("mlp_dropout", 1, 1, optimizer=optimizer) for optimizer in (LION, "adamw"))
    assert_refuses(workshop, tmp_path / "one", lion, adamw, "it lacks exp_avg_sq of")
    assert_refuses(workshop, tmp_path / "other", adamw, lion, "the step has no exp_avg_sq of")
