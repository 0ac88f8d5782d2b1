# SPDX-License-Identifier: Apache-2.0
"""Lion with everything that an optimizer goes together with. Its reference is a test of test/python/test_reference.py."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import fcdp
from checkpoints import assert_equal_tensors, read_checkpoint
from closed_forms import traffic
from expectations import LIVE_RANGES, LOSS_TOLERANCE
from fcdp.checkpoint.cli import main
from fcdp.optimizers import Lion
from harness import LION, Config, ToolError, Workshop, assert_bit_equal, parameters, read_plan, relative_error
from harness import run_command, tool
from models import build

STEPS = 4
RATE = 1e-3
# Everything at once. Members of a bucket take turns in the groups.
FULL = Config(
    "gpt_bf16",
    optimizer=LION,
    micro_batches=2,
    clip_norm=0.05,
    groups=("*.bias,*ln*:weight_decay=0", "*wte*,*wpe*:lr=0.25"),
    master="f32",
    reduce_dtype="f32",
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


@pytest.mark.parametrize("config", [FULL, Config("mlp_dropout", optimizer=LION)], ids=["full", "plain"])
@pytest.mark.parametrize("strategy", ["zero1", "zero2", "zero3", "hpz", "hsdp", "mics", "ddp"])
def test_strategies_are_bit_equal(workshop: Workshop, config: Config, strategy: str) -> None:
    accumulate = "sharded" if strategy in ("zero1", "mics") else ""
    other = replace(config, strategy=strategy, accumulate=accumulate)
    assert_bit_equal(workshop.run(config, STEPS), workshop.run(other, STEPS))


@pytest.mark.parametrize("other", [{"layout": "owned"}, {"layout": "ragged<8>"}, {"bucket_bytes": 1 << 16}], ids=str)
def test_layouts_are_bit_equal(workshop: Workshop, other: dict[str, object]) -> None:
    assert_bit_equal(workshop.run(FULL, STEPS), workshop.run(replace(FULL, **other), STEPS))


def test_bytes_are_the_closed_forms(workshop: Workshop) -> None:
    once, each = traffic(read_plan(workshop.step(FULL)), FULL.strategy, LIVE_RANGES[FULL.model])
    assert workshop.run(FULL, STEPS).traffic == [once + each] + [each] * (STEPS - 1)


def test_checkpoints_convert_and_go_on_elsewhere(
    workshop: Workshop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = workshop.model(FULL.model)

    def run(name: str, config: Config, steps: int, *extra: str) -> None:
        files = (f"--save-dir={tmp_path / name}", "--save-every=2", "--keep=9", *extra)
        tool(*run_command(workshop.step(config), model.archive, model.inputs, steps, *files))

    run("whole", FULL, STEPS)
    half = tmp_path / "whole" / "step-00000002"
    run("again", FULL, STEPS, f"--resume={half}")
    whole, again = (read_checkpoint(tmp_path / name / "step-00000004") for name in ("whole", "again"))
    assert_equal_tensors(whole.states, again.states)
    assert {role for role, _ in whole.states} - {"buffer"} == {"value", "master", "exp_avg"}
    assert not whole.states["exp_avg", "wte.weight"].equal(read_checkpoint(half).states["exp_avg", "wte.weight"])
    # Other ranks and another layout have the same state.
    run("one", replace(FULL, nodes=1, local=1, strategy="zero3", layout="owned"), STEPS, f"--resume={tmp_path / 'again'}")
    assert_equal_tensors(whole.states, read_checkpoint(tmp_path / "one" / "step-00000004").states)

    assert main(["inspect", str(half)]) == 0
    shown = capsys.readouterr().out
    assert "exp_avg" in shown and "exp_avg_sq" not in shown
    assert main(["convert", str(half), str(tmp_path / "dcp"), "--to=dcp", f"--optimizer={LION}"]) == 0
    assert main(["convert", str(tmp_path / "dcp"), str(tmp_path / "back"), "--to=fcdp"]) == 0
    assert main(["diff", str(half), str(tmp_path / "back")]) == 0


def test_other_optimizers_states_are_refused(workshop: Workshop, tmp_path: Path) -> None:
    lion, adamw = (Config("mlp_dropout", 1, 1, optimizer=optimizer) for optimizer in (LION, "adamw"))
    model = workshop.model("mlp_dropout")
    for one, other, message in ((lion, adamw, "it lacks exp_avg_sq of"), (adamw, lion, "the step has no exp_avg_sq of")):
        folder = tmp_path / one.name
        tool(*run_command(workshop.step(one), model.archive, model.inputs, 1, f"--save-dir={folder}"))
        with pytest.raises(ToolError, match=message):
            tool(*run_command(workshop.step(other), model.archive, model.inputs, 2, f"--resume={folder}"))
