# SPDX-License-Identifier: Apache-2.0
"""Masters in float32 for a model in bfloat16: the optimizer updates them, and what is gathered is their rounding."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import fcdp
from fcdp.checkpoint.cli import main
from checkpoints import assert_equal_tensors, read_checkpoint
from closed_forms import state_bytes, traffic
from expectations import LIVE_RANGES, LOSS_TOLERANCE
from harness import ADAMW, LION, Config, Workshop, assert_bit_equal, parameters, read_plan, relative_error
from harness import run_command, tool
from models import build

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS = 6


def ckpt(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


MASTER = Config("gpt_bf16", 1, 2, "fcdp", 2, ADAMW, master="f32")
MOMENTUM = replace(MASTER, optimizer="sgd,lr=0.05,momentum=0.9")
SIGNS = replace(MASTER, optimizer=LION)


def reference(workshop: Workshop, config: Config, steps: int) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Losses and masters of a loop as one writes it in PyTorch: the model's parameters are the masters' rounding."""
    model = build(config.model)
    masters = {name: value.detach().float().requires_grad_() for name, value in model.named_parameters()}
    name, *settings = config.optimizer.split(",")
    options = {key: float(value) for key, value in (setting.split("=") for setting in settings)}
    optimizer = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[name](masters.values(), **options)
    batches = fcdp.batches_from_npy(workshop.model(config.model).inputs, config.world, config.micro_batches)
    losses = []
    for step in range(steps):
        inputs = batches(step)
        total = 0.0
        optimizer.zero_grad(set_to_none=False)
        for batch in inputs:
            model.zero_grad()
            loss = model(**batch) if isinstance(batch, dict) else model(*batch)
            loss.backward()
            total += loss.item()
            for name, parameter in model.named_parameters():
                gradient = parameter.grad.float() / len(inputs)
                master = masters[name]
                master.grad = gradient if master.grad is None else master.grad + gradient
        optimizer.step()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(masters[name])
        losses.append(total / len(inputs))
    return losses, {name: master.detach() for name, master in masters.items()}


@pytest.mark.parametrize("config", [MASTER, MOMENTUM], ids=lambda config: config.name)
def test_losses_and_masters_are_those_of_pytorch(workshop: Workshop, tmp_path: Path, config: Config) -> None:
    model = workshop.model(config.model)
    losses, masters = reference(workshop, config, STEPS)
    run = workshop.run(config, STEPS)
    # A node's ranks accumulate gradients in float32, so only roundings to bfloat16 could make a difference.
    assert relative_error(run.losses, losses) <= 1e-4
    tool(*run_command(workshop.step(config), model.archive, model.inputs, STEPS, f"--save-dir={tmp_path}"))
    states = read_checkpoint(tmp_path / f"step-{STEPS:08}").states
    for name, value in masters.items():
        master = states["master", name]
        assert master.dtype == torch.float32
        torch.testing.assert_close(master, value, rtol=1e-4, atol=1e-5, msg=lambda text: f"{name}: {text}")
        # The model's parameters are the rounding, and so is what is saved of them.
        assert states["value", name].equal(master.bfloat16()), name
        assert parameters(run.parameters)[name].equal(master.bfloat16()), name
        assert not master.equal(master.bfloat16().float()), name


def test_losses_on_several_nodes_are_those_of_pytorch(workshop: Workshop) -> None:
    config = replace(MASTER, nodes=2)
    losses, _ = reference(workshop, config, STEPS)
    assert relative_error(workshop.run(config, STEPS).losses, losses) <= LOSS_TOLERANCE[config.model]


def test_updates_that_bfloat16_would_lose_add_up(workshop: Workshop, tmp_path: Path) -> None:
    """A step of 1e-5 does not change a norm's weight of 1 in bfloat16, whose neighbour is 0.996."""
    config = replace(MASTER, optimizer="adamw,lr=1e-5,weight_decay=0", micro_batches=1)
    model = workshop.model(config.model)
    changed = {}
    for master in ("model", "f32"):
        out = tmp_path / master
        step = workshop.step(replace(config, master=master))
        tool(*run_command(step, model.archive, model.inputs, 3, f"--save-dir={out}"))
        states = read_checkpoint(out / "step-00000003").states
        changed[master] = states["master" if master == "f32" else "value", "ln_f.weight"].float() - 1
    assert changed["model"].eq(0).all()
    assert changed["f32"].abs().gt(1e-5).any() and changed["f32"].abs().lt(1e-4).all()


@pytest.mark.parametrize("strategy", ["zero1", "zero2", "zero3", "hpz", "hsdp", "mics", "ddp"])
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_strategies_are_bit_equal(workshop: Workshop, strategy: str, micro_batches: int) -> None:
    config = replace(MASTER, nodes=2, micro_batches=micro_batches)
    accumulate = "sharded" if strategy in ("zero1", "mics") else ""
    other = replace(config, strategy=strategy, accumulate=accumulate)
    assert_bit_equal(workshop.run(config, STEPS), workshop.run(other, STEPS))


@pytest.mark.parametrize("strategy", ["fcdp", "zero3"])
def test_bytes_are_those_without_masters(workshop: Workshop, strategy: str) -> None:
    config = replace(MASTER, nodes=2, strategy=strategy)
    run = workshop.run(config, STEPS)
    once, each = traffic(read_plan(workshop.step(config)), strategy, LIVE_RANGES[config.model])
    assert run.traffic == [once + each] + [each] * (STEPS - 1)
    assert run.traffic == workshop.run(replace(config, master=""), STEPS).traffic


@pytest.mark.parametrize(("strategy", "parts"), [("ddp", 1), ("hsdp", 2), ("fcdp", 4)])
@pytest.mark.parametrize("config", [MASTER, MOMENTUM, SIGNS, replace(MASTER, master="")], ids=lambda config: config.name)
def test_states_have_the_bytes_of_the_closed_form(
    workshop: Workshop, config: Config, strategy: str, parts: int
) -> None:
    plan = read_plan(workshop.step(replace(config, nodes=2, strategy=strategy)))
    optimizer = config.optimizer.partition(",")[0]
    for bucket in plan["buckets"]:
        expected = state_bytes(bucket, optimizer, parts)
        assert ("master" in expected) == (config.master == "f32")
        assert {role: bucket["states"][role]["bytes"] for role in expected} == expected
        assert not set(bucket["states"]) - set(expected) - {"cache", "resident"}


@pytest.mark.parametrize("config", [MASTER, replace(MOMENTUM, nodes=2, strategy="hsdp")], ids=lambda config: config.name)
def test_goes_on_bit_for_bit(workshop: Workshop, tmp_path: Path, config: Config) -> None:
    model, step = workshop.model(config.model), workshop.step(config)
    for name, steps in (("whole", (4,)), ("halves", (2, 4))):
        for number in steps:
            extra = (f"--save-dir={tmp_path / name}", "--resume", f"--params-out={tmp_path / name}.safetensors")
            tool(*run_command(step, model.archive, model.inputs, number, *extra))
    whole, halves = (read_checkpoint(tmp_path / name / "step-00000004") for name in ("whole", "halves"))
    assert ("master", "wte.weight") in whole.states
    assert_equal_tensors(whole.states, halves.states)
    assert (tmp_path / "whole.safetensors").read_bytes() == (tmp_path / "halves.safetensors").read_bytes()
    # A step of another strategy and mesh has the same state.
    other = replace(config, nodes=1, local=1, strategy="zero3")
    extra = (f"--resume={tmp_path / 'whole'}", f"--save-dir={tmp_path / 'other'}")
    tool(*run_command(workshop.step(other), model.archive, model.inputs, 4, *extra))
    assert_equal_tensors(whole.states, read_checkpoint(tmp_path / "other" / "step-00000004").states)


@pytest.mark.parametrize("config", [MASTER, MOMENTUM], ids=lambda config: config.name)
@pytest.mark.parametrize("master", ["f32", "model"])
def test_resumes_with_and_without_masters(workshop: Workshop, tmp_path: Path, config: Config, master: str) -> None:
    """States that only one side has are made from the parameters, and the optimizer's states get the type of the
    step."""
    model = workshop.model(config.model)
    before = replace(config, master="model" if master == "f32" else "f32")
    after = replace(config, master=master, nodes=2, local=1, strategy="zero3")
    tool(*run_command(workshop.step(before), model.archive, model.inputs, 2, f"--save-dir={tmp_path / 'before'}"))
    saved = read_checkpoint(tmp_path / "before" / "step-00000002").states
    resume = (f"--resume={tmp_path / 'before'}", f"--save-dir={tmp_path / 'after'}")
    run = tool(*run_command(workshop.step(after), model.archive, model.inputs, 2, *resume))
    loaded = read_checkpoint(tmp_path / "after" / "step-00000002").states
    trained = sum(role == "value" for role, _ in saved)
    if master == "f32":
        line = f"the checkpoint has no masters of {trained} parameters: they start from the parameters' values"
        expected = {key: value if key[0] == "value" else value.float() for key, value in saved.items()}
        expected |= {("master", name): value.float() for (role, name), value in saved.items() if role == "value"}
    else:
        line = f"the step has no masters of {trained} parameters: it goes on from their rounding"
        expected = {key: value.bfloat16() for key, value in saved.items() if key[0] != "master"}
    assert run.count(line) == 1, run
    moments = [key for key in expected if key[0] not in ("value", "master")]
    assert moments and any(saved[key].any() for key in moments)
    assert_equal_tensors(loaded, expected)
    # It trains on, and one more step changes the parameters.
    tool(*run_command(workshop.step(after), model.archive, model.inputs, 3, f"--resume={tmp_path / 'after'}", *resume[1:]))
    more = read_checkpoint(tmp_path / "after" / "step-00000003").states
    assert set(more) == set(expected)
    assert not more["value", "wte.weight"].equal(expected["value", "wte.weight"])


def test_weights_in_float32_are_the_masters(workshop: Workshop, tmp_path: Path) -> None:
    """Loaded weights that are in float32 stay so in the masters; others are widened."""
    model = workshop.model(MASTER.model)
    still = replace(MASTER, nodes=2, optimizer="sgd,lr=0")
    weights = {name: value.detach() for name, value in build(MASTER.model).named_parameters()}
    torch.manual_seed(1)
    mixed = {name: value.float() + 1e-4 * torch.randn(value.shape) for name, value in weights.items()}
    mixed["ln_f.bias"] = weights["ln_f.bias"]
    save_file(mixed, tmp_path / "mixed.safetensors")
    step = workshop.step(still)
    tool(*run_command(step, tmp_path / "mixed.safetensors", model.inputs, 1, f"--save-dir={tmp_path / 'run'}"))
    states = read_checkpoint(tmp_path / "run" / "step-00000001").states
    for name, value in mixed.items():
        assert states["master", name].equal(value.float()), name
        assert states["value", name].equal(value.bfloat16()), name


@pytest.mark.parametrize("stored", [torch.float32, torch.float16, torch.float64])
def test_weights_of_another_type_are_converted(workshop: Workshop, tmp_path: Path, stored: torch.dtype) -> None:
    model = workshop.model(MASTER.model)
    still = replace(MASTER, master="", optimizer="sgd,lr=0")
    weights = {name: value.detach().to(stored) for name, value in build(MASTER.model).named_parameters()}
    torch.manual_seed(1)
    weights = {name: value + 1e-3 * torch.randn(value.shape, dtype=stored) for name, value in weights.items()}
    path = tmp_path / "weights.safetensors"
    save_file(weights, path)
    run = tmp_path / "run"
    output = tool(*run_command(workshop.step(still), path, model.inputs, 1, f"--save-dir={run}"))
    short = {torch.float32: "f32", torch.float16: "f16", torch.float64: "f64"}[stored]
    assert f"{path} has {len(weights)} tensors in {short}, converted to the step's bf16" in output
    states = read_checkpoint(run / "step-00000001").states
    assert {name for role, name in states if role == "value"} == set(weights)
    for name, value in weights.items():
        assert states["value", name].equal(value.bfloat16()), name


def test_a_float32_model_has_no_masters(workshop: Workshop) -> None:
    config = Config("tiny_params", master="f32")
    assert_bit_equal(workshop.run(config, 2), workshop.run(replace(config, master=""), 2))
    assert not any("master" in bucket["states"] for bucket in read_plan(workshop.step(config))["buckets"])


def test_checkpoints_convert_to_the_models_type(workshop: Workshop, tmp_path: Path) -> None:
    model = workshop.model(MASTER.model)
    run = tmp_path / "run"
    tool(*run_command(workshop.step(MASTER), model.archive, model.inputs, 1, f"--save-dir={run}"))
    states = read_checkpoint(run / "step-00000001").states
    for form in ("hf", "dcp"):
        assert ckpt("convert", run, tmp_path / form, f"--to={form}") == 0
    for file in (tmp_path / "hf").glob("*.safetensors"):
        for name, value in parameters(file).items():
            assert value.dtype == torch.bfloat16 and value.equal(states["value", name]), name
    assert ckpt("convert", tmp_path / "dcp", tmp_path / "back", "--to=fcdp") == 0
    (back,) = (tmp_path / "back").rglob("index.json")
    assert_equal_tensors(states, read_checkpoint(back.parent).states)
