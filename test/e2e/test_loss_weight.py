# SPDX-License-Identifier: Apache-2.0
"""Losses that are weighted by an input, --loss-weight: the loss of a step is sum(w L) / sum(w) over all micro-batches
and ranks, and gradients are those of it."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import fcdp
from checkpoints import assert_equal_tensors, read_checkpoint
from evaluated import evaluation_data, step_with_evaluation
from harness import (
    Config,
    Run,
    ToolError,
    Workshop,
    assert_bit_equal,
    compile_command,
    parameters,
    read_log,
    read_plan,
    relative_error,
    run_command,
    tool,
)
from models import BATCH, TIME, VOCABULARY, build
from test_loop import train

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS = 4
SGD = "sgd,lr=0.1,momentum=0.9"
WEIGHTED = Config("masked", 2, 2, "fcdp", 2, loss_weight="mask")


@dataclass(frozen=True)
class Data:
    """Rows of all micro-batches and ranks of `STEPS` steps."""

    arrays: dict[str, np.ndarray]

    @staticmethod
    def make(config: Config, steps: int = STEPS) -> "Data":
        rng = np.random.default_rng(5)
        rows = steps * config.world * config.micro_batches
        tokens = rng.integers(0, VOCABULARY, (rows, BATCH, TIME + 1))
        lengths = rng.integers(1, TIME + 1, (rows, BATCH, 1))
        mask = (np.arange(TIME) < lengths).astype(np.int64)
        return Data({"ids": tokens[:, :, :-1], "labels": tokens[:, :, 1:], "mask": mask})

    def with_mask(self, row: int, value: float) -> "Data":
        mask = self.arrays["mask"].copy()
        mask[row] = value
        return Data({**self.arrays, "mask": mask})

    def save(self, folder: Path) -> dict[str, Path]:
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in self.arrays.items():
            np.save(folder / f"{name}.npy", array)
        return {name: folder / f"{name}.npy" for name in self.arrays}

    def step(self, config: Config, number: int) -> list[dict[str, torch.Tensor]]:
        count = config.world * config.micro_batches
        rows = range(number * count, (number + 1) * count)
        return [{name: torch.from_numpy(array[row].copy()) for name, array in self.arrays.items()} for row in rows]


def run(step: Path, workshop: Workshop, config: Config, data: Data, folder: Path, *extra: str | Path, steps: int = STEPS) -> Run:
    folder.mkdir(parents=True, exist_ok=True)
    mesh = (f"--nodes={config.nodes}", f"--ranks-per-node={config.local}")
    files = (f"--json={folder / 'log.jsonl'}", f"--params-out={folder / 'out.safetensors'}")
    archive = workshop.model(config.model).archive
    tool(*run_command(step, archive, data.save(folder / "data"), steps, *mesh, *files, *extra))
    return Run([line for line in read_log(folder / "log.jsonl") if "loss" in line], folder / "out.safetensors")


def weighted_loss(model: nn.Module, batches: list[dict[str, torch.Tensor]]) -> torch.Tensor:
    """As one writes it in PyTorch. Batches without a token are left out, where the model's loss is NaN."""
    total = sum(int(batch["mask"].sum()) for batch in batches)
    weights = [batch["mask"].sum() / total for batch in batches]
    return sum(weight * model(**batch) for weight, batch in zip(weights, batches) if weight > 0)


def pytorch(config: Config, data: Data) -> tuple[list[float], dict[str, torch.Tensor]]:
    model = build(config.model)
    name, *settings = config.optimizer.split(",")
    options = {key: float(value) for key, value in (setting.split("=") for setting in settings)}
    optimizer = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[name](model.parameters(), **options)
    losses = []
    for number in range(STEPS):
        optimizer.zero_grad()
        loss = weighted_loss(model, data.step(config, number))
        loss.backward()
        if config.clip_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
        optimizer.step()
        losses.append(loss.item())
    return losses, {key: value.detach() for key, value in model.named_parameters()}


def assert_is_pytorch(one: Run, config: Config, data: Data) -> None:
    losses, expected = pytorch(config, data)
    assert relative_error(one.losses, losses) <= 1e-6
    for name, value in parameters(one.parameters).items():
        torch.testing.assert_close(value, expected[name], rtol=1e-6, atol=1e-6, msg=lambda text: f"{name}: {text}")


@pytest.mark.parametrize(
    "config",
    [
        WEIGHTED,
        replace(WEIGHTED, micro_batches=1, strategy="zero3"),
        replace(WEIGHTED, micro_batches=3, optimizer=SGD),
        replace(WEIGHTED, nodes=1, local=1, strategy="ddp"),
        replace(WEIGHTED, clip_norm=0.2, optimizer=SGD),
    ],
    ids=lambda config: config.name,
)
def test_losses_and_parameters_are_those_of_pytorch(workshop: Workshop, tmp_path: Path, config: Config) -> None:
    data = Data.make(config)
    one = run(workshop.step(config), workshop, config, data, tmp_path)
    assert_is_pytorch(one, config, data)
    tokens = data.arrays["mask"].reshape(STEPS, -1).sum(1)
    assert [step["loss_weight"] for step in one.steps] == tokens.tolist()
    # The mean of the losses is another one.
    plain = replace(config, loss_weight="")
    mean = run(workshop.step(plain), workshop, plain, data, tmp_path / "mean")
    assert config.world * config.micro_batches == 1 or relative_error(one.losses, mean.losses) > 1e-4
    assert "loss_weight" not in mean.steps[0]
    # The weights travel with the figures, as a number of each micro-batch. Two numbers travel in front of the first
    # step.
    assert one.traffic == mean.traffic
    number = 8 * (config.world - 1) * config.local
    added = [2 * number] + [config.micro_batches * number] * (STEPS - 1)
    control = [[step["control_bytes"] for step in each.steps] for each in (one, mean)]
    assert [a - b for a, b in zip(*control)] == added


def test_the_loss_of_a_router_is_weighted_like_that_of_tokens(workshop: Workshop) -> None:
    config = Config("hf_mixtral", 1, 2, "fcdp", 2, SGD, loss_weight="attention_mask")
    data = fcdp.batches_from_npy(workshop.model(config.model).inputs, config.world, config.micro_batches)
    model, losses, routed = build(config.model), [], []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for number in range(STEPS):
        batches = data(number)
        weights = [batch["attention_mask"].sum() for batch in batches]
        results = [model(**batch) for batch in batches]
        loss = sum(weight * result.loss for weight, result in zip(weights, results)) / sum(weights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        routed.append(sum(result.aux_loss.item() for result in results))
    one = workshop.run(config, STEPS)
    assert relative_error(one.losses, losses) <= 1e-6
    assert one.steps[0]["loss_weight"] > 0 and min(routed) > 1
    for name, value in parameters(one.parameters).items():
        torch.testing.assert_close(value, model.get_parameter(name), rtol=1e-6, atol=1e-6, msg=lambda text: f"{name}: {text}")


@pytest.mark.parametrize("strategy", ["zero1", "zero2", "zero3", "hpz", "hsdp", "mics", "ddp"])
def test_strategies_are_bit_equal(workshop: Workshop, tmp_path: Path, strategy: str) -> None:
    accumulate = {"zero1": "full", "mics": "node"}.get(strategy, "")
    other = replace(WEIGHTED, strategy=strategy, accumulate=accumulate)
    base = replace(WEIGHTED, accumulate=accumulate)
    # One loss is NaN, of a weight of 0.
    data = Data.make(WEIGHTED).with_mask(5, 0)
    one, two = (run(workshop.step(each), workshop, each, data, tmp_path / each.strategy) for each in (base, other))
    assert_bit_equal(one, two)


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_equal_weights_change_nothing(workshop: Workshop, tmp_path: Path, micro_batches: int) -> None:
    """All factors are 1 then, by which products are exact."""
    config = replace(WEIGHTED, micro_batches=micro_batches)
    data = Data.make(config)
    data.arrays["mask"][:] = data.arrays["mask"][0]
    plain = replace(config, loss_weight="")
    one, two = (run(workshop.step(each), workshop, each, data, tmp_path / each.name) for each in (config, plain))
    assert_bit_equal(one, two)


@pytest.mark.parametrize(
    "config",
    [
        WEIGHTED,
        replace(WEIGHTED, micro_batches=3, strategy="zero3"),
        replace(WEIGHTED, micro_batches=1, strategy="zero1"),
        replace(WEIGHTED, strategy="hpz", accumulate="node", bucket_bytes=1 << 20),
    ],
    ids=lambda config: config.name,
)
@pytest.mark.parametrize("nonfinite", ["stop", "skip", "continue"])
def test_a_weight_of_zero_leaves_a_micro_batch_out(workshop: Workshop, tmp_path: Path, config: Config, nonfinite: str) -> None:
    """Its loss and gradients are NaN in the model."""
    count = config.world * config.micro_batches
    data = Data.make(config).with_mask(2, 0).with_mask(2 * count, 0)
    if config.micro_batches > 1:
        data = data.with_mask(count + 1, 0).with_mask(count + 1 + config.world, 0)
    one = run(workshop.step(config), workshop, config, data, tmp_path, f"--on-nonfinite={nonfinite}")
    assert all(step["skipped_steps"] == 0 for step in one.steps)
    assert_is_pytorch(one, config, data)


def test_a_scaled_loss_has_the_same_bits(workshop: Workshop, tmp_path: Path) -> None:
    """Products by powers of two are exact."""
    scaled = replace(WEIGHTED, loss_scale=True)
    data = Data.make(WEIGHTED).with_mask(1, 0)
    one = run(workshop.step(scaled), workshop, scaled, data, tmp_path / "scaled", "--loss-scale=1024")
    two = run(workshop.step(WEIGHTED), workshop, WEIGHTED, data, tmp_path / "plain")
    assert_bit_equal(one, two)
    dynamic = run(workshop.step(scaled), workshop, scaled, data, tmp_path / "dynamic", "--loss-scale=init=1024,interval=2")
    assert [step["loss_scale"] for step in dynamic.steps] == [1024, 1024, 2048, 2048]
    assert_bit_equal(dynamic, two)


def test_a_loss_in_float16_is_weighted(workshop: Workshop, tmp_path: Path) -> None:
    """The factor is converted with the scale. Any input can be the weight."""
    config = Config("gpt_f16", 1, 2, "fcdp", 2, SGD, master="f32", loss_scale=True, loss_weight="labels")
    inputs = workshop.model(config.model).inputs
    log = tmp_path / "log.jsonl"
    tool(*run_command(workshop.step(config), workshop.model(config.model).archive, inputs, 1, "--loss-scale=64", f"--json={log}"))
    batches = fcdp.batches_from_npy(inputs, config.world, config.micro_batches)(0)
    weights = [float(batch["labels"].sum()) for batch in batches]
    losses = [float(build(config.model)(**batch)) for batch in batches]
    expected = sum(weight * loss for weight, loss in zip(weights, losses)) / sum(weights)
    assert abs(read_log(log)[0]["loss"] - expected) <= 1e-3 * expected


def test_goes_on_bit_for_bit(workshop: Workshop, tmp_path: Path) -> None:
    data, step = Data.make(WEIGHTED), workshop.step(WEIGHTED)
    whole = run(step, workshop, WEIGHTED, data, tmp_path / "whole", f"--save-dir={tmp_path / 'whole-saved'}")
    saved = f"--save-dir={tmp_path / 'saved'}"
    run(step, workshop, WEIGHTED, data, tmp_path / "halves", saved, steps=1)
    halves = run(step, workshop, WEIGHTED, data, tmp_path / "halves", saved, "--resume")
    assert_bit_equal(whole, halves)
    one, two = (read_checkpoint(tmp_path / name / f"step-{STEPS:08}") for name in ("whole-saved", "saved"))
    assert_equal_tensors(one.states, two.states)


def evaluation_loss(model: nn.Module, files: dict[str, Path], batches: int) -> float:
    arrays = {name: np.load(path) for name, path in files.items()}
    rows = [{name: torch.from_numpy(array[row].copy()) for name, array in arrays.items()} for row in range(batches)]
    with torch.no_grad():
        return weighted_loss(model.eval(), rows).item()


def test_the_loss_of_an_evaluation_is_weighted(workshop: Workshop, tmp_path: Path) -> None:
    """Training does not notice, and the best checkpoint is that of the least weighted loss."""
    data, step = Data.make(WEIGHTED), step_with_evaluation(workshop, WEIGHTED)
    _, files = evaluation_data(workshop, WEIGHTED.model)
    # Batch 1 of rank 1 has no token.
    mask = np.load(files["mask"])
    mask[5] = 0
    np.save(tmp_path / "mask.npy", mask)
    files = {**files, "mask": tmp_path / "mask.npy"}
    rows = [f"--eval-input={name}={path}" for name, path in files.items()]
    options = ("--eval-every=1", "--eval-batches=2", "--keep-best", "--keep=1", f"--save-dir={tmp_path / 'saved'}")
    one = run(step, workshop, WEIGHTED, data, tmp_path / "run", *rows, *options, "--lr=0.3")
    evaluations = [line for line in read_log(tmp_path / "run" / "log.jsonl") if "evaluation_loss" in line]
    assert [line["loss_weight"] for line in evaluations] == [int(mask[:8].sum())] * STEPS
    model = build(WEIGHTED.model)
    model.load_state_dict(parameters(one.parameters))
    assert relative_error([evaluations[-1]["evaluation_loss"]], [evaluation_loss(model, files, 8)]) <= 1e-6
    losses = {line["step"]: line["evaluation_loss"] for line in evaluations}
    kept = {int(path.name.removeprefix("step-")) for path in (tmp_path / "saved").iterdir()}
    assert kept == {min(losses, key=lambda number: losses[number]), STEPS}
    alone = run(step, workshop, WEIGHTED, data, tmp_path / "alone", "--lr=0.3")
    assert_bit_equal(one, alone)


def test_an_evaluation_alone_is_weighted(workshop: Workshop, tmp_path: Path) -> None:
    archive, files = evaluation_data(workshop, "masked")
    step, log = tmp_path / "step.so", tmp_path / "log.jsonl"
    tool(*compile_command(WEIGHTED, f"--eval={archive}", step))
    rows = [f"--eval-input={name}={path}" for name, path in files.items()]
    weights = workshop.model("masked").archive
    tool(*run_command(step, weights, {}, 0, "--nodes=2", "--ranks-per-node=2", *rows, f"--json={log}"))
    expected = evaluation_loss(build("masked"), files, 12)
    assert relative_error([read_log(log)[-1]["evaluation_loss"]], [expected]) <= 1e-6


def test_an_evaluation_without_weight_is_refused(workshop: Workshop, tmp_path: Path) -> None:
    _, files = evaluation_data(workshop, WEIGHTED.model)
    np.save(tmp_path / "mask.npy", np.zeros_like(np.load(files["mask"])))
    rows = [f"--eval-input={name}={path}" for name, path in {**files, "mask": tmp_path / "mask.npy"}.items()]
    with pytest.raises(ToolError, match="the evaluation: expected a loss with a weight above 0, but all elements of the input 'mask'"):
        run(step_with_evaluation(workshop, WEIGHTED), workshop, WEIGHTED, Data.make(WEIGHTED), tmp_path, *rows, steps=1)


SHAPES = (TIME // 2, TIME)


def compile_shapes(workshop: Workshop, config: Config) -> Path:
    def make() -> Path:
        archives = []
        for length in SHAPES:
            tokens = torch.zeros(BATCH, length, dtype=torch.int64)
            archives.append(workshop.folder / f"masked.length{length}.pt2")
            fcdp.export(build("masked"), {"ids": tokens, "labels": tokens, "mask": torch.ones_like(tokens)}, archives[-1])
        out = workshop.folder / f"{config.name}.shapes.so"
        tool(*compile_command(config, archives[0], out), *archives[1:])
        return out

    return workshop._once(("weighted shapes", config), make)


@pytest.mark.parametrize("config", [WEIGHTED, replace(WEIGHTED, strategy="zero3", micro_batches=1)], ids=lambda config: config.name)
def test_steps_of_several_shapes(workshop: Workshop, tmp_path: Path, config: Config) -> None:
    """The elements after a row are padding of the mask, too, which has no weight."""
    data = Data.make(config)
    count, half = config.world * config.micro_batches, SHAPES[0]
    for step in (0, 2):
        rows = slice(step * count, (step + 1) * count)
        for array in data.arrays.values():
            array[rows, :, half:] = 0
    one = run(compile_shapes(workshop, config), workshop, config, data, tmp_path)
    assert [step["variant"] for step in one.steps] == [0, 1, 0, 1]
    assert_is_pytorch(one, config, data)


def test_padding_of_the_weight_is_zero(workshop: Workshop, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="padding of input 'mask': expected 0, as the step weights its losses by it, got 1"):
        run(compile_shapes(workshop, WEIGHTED), workshop, WEIGHTED, Data.make(WEIGHTED), tmp_path, "--pad=mask=1")


def test_a_loop_of_pytorch_has_the_same_losses(workshop: Workshop, tmp_path: Path) -> None:
    expected = workshop.run(WEIGHTED, STEPS)
    assert train(workshop, WEIGHTED, (0, STEPS), tmp_path / "run", loss_weight="mask") == expected.losses
    state = torch.load(tmp_path / "run" / f"state-{STEPS}.pt")
    for name, value in parameters(expected.parameters).items():
        assert torch.equal(state[name], value), name


class Counted(nn.Module):
    """Has the number of its tokens as an input without dimensions, of any type."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        return self.linear(x).square().sum() / tokens


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int32, torch.uint8, torch.bool])
def test_types_of_weights(tmp_path: Path, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, most = Counted(), 1 if dtype is torch.bool else 7
    count = torch.tensor(most, dtype=dtype)
    fcdp.export(model, {"x": torch.ones(3, 4), "tokens": count}, tmp_path / "step.pt2")
    config = Config("counted", 1, 2, "zero3", 1, "sgd,lr=0.1", loss_weight="tokens")
    tool(*compile_command(config, tmp_path / "step.pt2", tmp_path / "step.so"))
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 3, 4), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    weights = torch.tensor([most, 1], dtype=dtype)
    np.save(tmp_path / "tokens.npy", weights.numpy())
    log = tmp_path / "log.jsonl"
    inputs = {name: tmp_path / f"{name}.npy" for name in ("x", "tokens")}
    tool(*run_command(tmp_path / "step.so", tmp_path / "step.pt2", inputs, 1, f"--json={log}"))
    (step,) = read_log(log)
    # The weights are what the losses are divided by.
    squares = model.linear(torch.from_numpy(x)).square().sum().item()
    assert step["loss_weight"] == most + 1
    assert abs(step["loss"] - squares / (most + 1)) <= 1e-3 * step["loss"]


@pytest.mark.parametrize("step", [0, 2])
def test_a_step_without_weight_ends_the_run(workshop: Workshop, tmp_path: Path, step: int) -> None:
    data = Data.make(WEIGHTED)
    count = WEIGHTED.world * WEIGHTED.micro_batches
    data.arrays["mask"][step * count : (step + 1) * count] = 0
    with pytest.raises(ToolError) as error:
        run(workshop.step(WEIGHTED), workshop, WEIGHTED, data, tmp_path)
    text = str(error.value)
    assert f"step {step + 1}: expected a loss with a weight above 0, but all elements of the input 'mask', by which losses" in text
    assert text.count("fcdp-run: error: ") == 1, text
    assert len(read_log(tmp_path / "log.jsonl")) == step


@pytest.mark.parametrize("step", [0, 2])
def test_a_negative_weight_is_named(workshop: Workshop, tmp_path: Path, step: int) -> None:
    count = WEIGHTED.world * WEIGHTED.micro_batches
    row = step * count + WEIGHTED.world + 3  # micro-batch 1 of rank 3
    with pytest.raises(ToolError) as error:
        run(workshop.step(WEIGHTED), workshop, WEIGHTED, Data.make(WEIGHTED).with_mask(row, -2), tmp_path)
    text = str(error.value)
    message = "input 'mask' of micro-batch 1 on rank 3: expected weights of the loss, which are finite and at least 0, got -2"
    assert message in text, text


def test_inputs_that_are_no_weights_are_refused(workshop: Workshop, tmp_path: Path) -> None:
    def refused(model: str, weight: str) -> str:
        config = Config(model, loss_weight=weight)
        with pytest.raises(ToolError) as error:
            tool(*compile_command(config, workshop.model(model).archive, tmp_path / "step.so"))
        return str(error.value)

    text = refused("masked", "attention_mask")
    assert "loss-weight: expected an input of the step, got 'attention_mask'; its inputs are: 'ids', 'labels', 'mask'" in text
    complexes = [key for key, path in workshop.model("rotary").inputs.items() if np.iscomplexobj(np.load(path))]
    text = refused("rotary", complexes[0])
    assert f"loss-weight: expected an input of integers, bools or floats, got '{complexes[0]}' of type" in text


def test_the_plan_names_the_input(workshop: Workshop) -> None:
    plan = read_plan(workshop.step(WEIGHTED))
    assert plan["loss_weight"] == "mask"
    packs = [op for op in plan["ops"] if op["kind"] == "pack"]
    assert packs and all(pack["whole"]["bytes"] > 0 for pack in packs)
