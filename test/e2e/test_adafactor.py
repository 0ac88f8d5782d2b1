# SPDX-License-Identifier: Apache-2.0
"""Adafactor trains as torch.optim.Adafactor, with parameters that are whole on a rank."""

from collections.abc import Iterable
from dataclasses import replace
from math import prod
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
from harness import Config, Workshop, parameters, read_plan, relative_error, run_command, tool
from models import build
from optimizer_checks import (
    EVERYTHING,
    STEPS,
    WarmUp,
    assert_checkpoints_go_on,
    assert_converts,
    assert_layout_is_bit_equal,
    assert_planned_memory,
    assert_refuses,
    assert_strategy_is_bit_equal,
    each_layout,
    each_strategy,
    skip_overflowing_steps,
)
from test_loop import train

OPTIMIZER = "adafactor,weight_decay=0.5"
CONFIG = Config("gpt", optimizer=OPTIMIZER)
FULL = replace(
    EVERYTHING,
    optimizer=f"{OPTIMIZER}+adamw,lr=1e-3,eps=1e-3",
    groups=("*.bias,*ln*:weight_decay=0", "*up.weight:lr=0.25,weight_decay=0", "*proj*.weight:optimizer=adamw"),
)
FACTORS = {"row_var", "col_var"}


def roles_of(shape: Iterable[int]) -> set[str]:
    return FACTORS if len(tuple(shape)) >= 2 else {"variance"}


def expected_shape(role: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    own = list(shape)
    if role != "variance":
        own[-1 if role == "row_var" else -2] = 1
    return tuple(own)


def assert_close(values: dict[str, torch.Tensor], network: nn.Module, atol: float = 2e-6) -> None:
    for name, value in network.named_parameters():
        torch.testing.assert_close(values[name], value.detach(), rtol=2e-5, atol=atol, msg=lambda m: f"{name}: {m}")


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("adafactor", {}),
        (OPTIMIZER, {"weight_decay": 0.5}),
        (
            "adafactor,lr=0.05,beta2_decay=-0.5,eps1=1e-4,eps2=1e-2,d=2",
            {"lr": 0.05, "beta2_decay": -0.5, "eps": (1e-4, 1e-2), "d": 2.0},
        ),
    ],
    ids=["defaults", "decay", "all"],
)
@pytest.mark.parametrize("model", ["gpt", "mlp_dropout", "hf_llama"])
def test_one_rank_trains_as_pytorch(
    workshop: Workshop, tmp_path: Path, model: str, text: str, settings: dict[str, object]
) -> None:
    config = Config(model, 1, 1, optimizer=text)
    given, network = workshop.model(model), build(model)
    optimizers: list[torch.optim.Adafactor] = []

    def make(trained: Iterable[nn.Parameter]) -> torch.optim.Adafactor:
        optimizers.append(torch.optim.Adafactor(trained, **settings))
        return optimizers[0]

    losses = fcdp.reference(network, fcdp.batches_from_npy(given.inputs, 1, 1), make, STEPS, seed=0)
    tool(*run_command(workshop.step(config), given.archive, given.inputs, STEPS, f"--save-dir={tmp_path}"))
    states = read_checkpoint(tmp_path / f"step-{STEPS:08}").states
    assert relative_error(workshop.run(config, STEPS).losses, losses) <= LOSS_TOLERANCE[model]
    values = {name: states["value", name] for name, _ in network.named_parameters()}
    assert_close(values, network, atol=1e-5 if "lr" in settings else 2e-6)
    for name, value in network.named_parameters():
        roles = {role for role, other in states if other == name} - {"value"}
        assert roles == roles_of(value.shape), name
        for role in roles:
            expected = optimizers[0].state[value][role]
            assert states[role, name].shape == expected.shape == expected_shape(role, tuple(value.shape))
            assert expected.any() and (states[role, name] - expected).norm() <= 1e-4 * expected.norm(), (role, name)


def test_schedules_groups_and_clipping_are_those_of_pytorch(workshop: Workshop, tmp_path: Path) -> None:
    groups = ("*up.weight:lr=0.5,weight_decay=0", "*.bias:lr=2")
    config = replace(CONFIG, optimizer=f"{OPTIMIZER},lr=0.4", micro_batches=2, clip_norm=0.5, groups=groups)
    given, network = workshop.model("gpt"), build("gpt")
    kinds: list[dict[str, object]] = []
    for name, value in network.named_parameters():
        group: dict[str, object] = {"params": [value]}
        if name.endswith("up.weight"):
            group |= {"lr": 0.2, "weight_decay": 0.0}
        if name.endswith("bias"):
            group["lr"] = 0.8
        kinds.append(group)
    losses = fcdp.reference(
        network,
        fcdp.batches_from_npy(given.inputs, config.world, config.micro_batches),
        lambda _: torch.optim.Adafactor(kinds, lr=0.4, weight_decay=0.5),
        STEPS,
        world=config.world,
        seed=0,
        clip_norm=config.clip_norm,
        schedule=lambda optimizer: LambdaLR(optimizer, lambda step: min(1, step / 3)),
    )
    warm_up = WarmUp(workshop, tmp_path)
    values = warm_up.run(config)
    assert relative_error(warm_up.losses(0.4), losses) <= 1e-3
    assert_close(values, network, atol=2e-5)
    # The test can fail: each of these changes what is learned.
    for other in ({"groups": groups[1:]}, {"groups": groups[:1]}, {"clip_norm": None}):
        values = warm_up.run(replace(config, **other))
        with pytest.raises(AssertionError):
            assert_close(values, network, atol=2e-5)


@pytest.mark.parametrize("config", [FULL, CONFIG], ids=["full", "plain"])
@each_strategy
def test_strategies_are_bit_equal(workshop: Workshop, config: Config, strategy: str) -> None:
    assert_strategy_is_bit_equal(workshop, config, strategy)


@each_layout
def test_layouts_are_bit_equal(workshop: Workshop, other: dict[str, object]) -> None:
    assert_layout_is_bit_equal(workshop, CONFIG, other)


def state_bytes(plan: dict[str, object], index: int, width: int) -> dict[str, int]:
    """Bytes of a bucket's second moments on each rank: those of the rank with most, for the parameters that it owns."""
    shard = plan["buckets"][index]["shard_elements"]
    counts = {role: [0] * plan["nodes"] * plan["ranks_per_node"] for role in (*FACTORS, "variance")}
    for parameter in plan["parameters"]:
        shape, begin = parameter["shape"], parameter["offset_elements"]
        if parameter["bucket"] != index:
            continue
        assert begin // shard == (begin + prod(shape) - 1) // shard, parameter["names"]
        for role in roles_of(shape):
            counts[role][begin // shard] += prod(expected_shape(role, tuple(shape)))
    return {role: width * max(each) for role, each in counts.items()}


@pytest.mark.parametrize("config", [CONFIG, replace(FULL, master=""), FULL], ids=["f32", "bf16", "master"])
def test_buckets_bytes_and_memory(workshop: Workshop, config: Config) -> None:
    plan = read_plan(workshop.step(config))
    once, each = traffic(plan, config.strategy, LIVE_RANGES[config.model])
    assert workshop.run(config, STEPS).traffic == [once + each] + [each] * (STEPS - 1)
    found = 0
    for index, bucket in enumerate(plan["buckets"]):
        if not bucket["name"].endswith(".adafactor"):
            assert bucket["states"].keys() >= {"exp_avg", "exp_avg_sq"}
            continue
        found += 1
        expected = state_bytes(plan, index, 2 if config.model == "gpt_bf16" and not config.master else 4)
        assert {role: bucket["states"][role]["bytes"] for role in expected} == expected
        states = {"shard", "grad", "master", "cache", "resident", *FACTORS, "variance"}
        assert not set(bucket["states"]) - states
        # Far less than a moment of each element.
        assert sum(expected.values()) <= max(bucket["states"]["grad"]["bytes"] / 8, 4 * 4096)
    assert found == 6
    assert_planned_memory(workshop, config)


def test_shards_in_bfloat16_are_rounded_once(workshop: Workshop) -> None:
    """Without masters, the first step is that of float32 on the same values, rounded."""
    config = Config("gpt_bf16", 1, 1, optimizer="adafactor,lr=0.05,eps1=1e-7")
    wide = parameters(workshop.run(replace(config, master="f32"), 1).parameters)
    narrow = parameters(workshop.run(config, 1).parameters)
    different = total = 0
    for name, value in narrow.items():
        assert value.dtype == torch.bfloat16
        torch.testing.assert_close(value, wide[name], rtol=2**-6, atol=2**-9)
        different += int((value != wide[name]).sum())
        total += value.numel()
    # The gradient is rounded to bfloat16 before.
    assert different <= 0.1 * total


def test_checkpoints_go_on_elsewhere(workshop: Workshop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roles = {"value", "master", "exp_avg", "exp_avg_sq", "variance", *FACTORS}
    others = [
        replace(FULL, nodes=1, local=1, strategy="zero3"),
        replace(FULL, nodes=1, local=3, layout="owned"),
        replace(FULL, strategy="ddp", bucket_bytes=1 << 16),
    ]
    half = assert_checkpoints_go_on(workshop, tmp_path, FULL, others, roles, "row_var")
    assert main(["inspect", str(half)]) == 0
    shown = capsys.readouterr().out
    assert "row_var" in shown and "col_var" in shown and "variance" in shown
    assert_converts(half, tmp_path)


def test_checkpoints_of_other_optimizers_are_refused(workshop: Workshop, tmp_path: Path) -> None:
    adafactor, adamw = (Config("mlp_dropout", 1, 1, optimizer=optimizer) for optimizer in (OPTIMIZER, "adamw"))
    assert_refuses(workshop, tmp_path / "one", adafactor, adamw, "it lacks exp_avg of")
    assert_refuses(workshop, tmp_path / "other", adamw, adafactor, "it lacks row_var of")


def test_steps_that_overflow_are_skipped(workshop: Workshop, tmp_path: Path) -> None:
    """The first scale is too large; a step that is skipped does not count as one of the optimizer's."""
    first, last = skip_overflowing_steps(workshop, OPTIMIZER, tmp_path)
    moments = [(role, name) for role, name in first if role in (*FACTORS, "variance")]
    assert {role for role, _ in moments} == {*FACTORS, "variance"}
    for key in moments:
        assert not first[key].any() and last[key].any() and last[key].isfinite().all()


def test_loop_of_pytorch(workshop: Workshop, tmp_path: Path) -> None:
    """fcdp.compile takes the optimizer over, and its states go on, also with the text of the same settings."""
    config = replace(CONFIG, nodes=1, local=2)
    expected = workshop.run(config, STEPS).losses
    assert train(workshop, config, (0, 2), tmp_path / "run", optimizer="Adafactor") == expected[:2]
    assert train(workshop, config, (2, STEPS), tmp_path / "run") == expected[2:]
