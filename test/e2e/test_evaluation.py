# SPDX-License-Identifier: Apache-2.0
"""Evaluations between steps: their losses are PyTorch's, and training does not notice them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import fcdp
from closed_forms import TYPE_BYTES
from evaluated import ROWS, evaluation_data, step_with_evaluation
from harness import BIN, Config, ToolError, Workshop, compile_command, read_log, read_plan, run_command, tool
from models import build

STEPS = 4

@dataclass(frozen=True)
class Evaluated:
    """The lines of steps, and those of evaluations."""

    steps: list[dict[str, Any]]
    evaluations: list[dict[str, Any]]
    parameters: Path


def evaluate(workshop: Workshop, config: Config, folder: Path, *extra: str, steps: int = STEPS) -> Evaluated:
    model = workshop.model(config.model)
    _, inputs = evaluation_data(workshop, config.model)
    log, out = folder / "log.jsonl", folder / "out.safetensors"
    mesh = (f"--nodes={config.nodes}", f"--ranks-per-node={config.local}")
    files = [f"--eval-input={name}={path}" for name, path in inputs.items()]
    step = step_with_evaluation(workshop, config)
    command = run_command(step, model.archive, model.inputs, steps, *mesh, *files, f"--json={log}", f"--params-out={out}")
    tool(*command, *extra)
    lines = read_log(log)
    return Evaluated([line for line in lines if "loss" in line], [line for line in lines if "evaluation_loss" in line], out)


def pytorch_loss(workshop: Workshop, config: Config, weights: Path, batches: int) -> float:
    """The mean loss of the first rows, in PyTorch with the weights of a run."""
    model = build(config.model).eval()
    loaded = model.load_state_dict(load_file(weights), strict=False)
    assert not loaded.unexpected_keys
    _, inputs = evaluation_data(workshop, config.model)
    arrays = {name: np.load(path) for name, path in inputs.items()}
    losses = []
    with torch.no_grad():
        for row in range(batches * config.world):
            output = model(**{name: torch.from_numpy(array[row % ROWS]) for name, array in arrays.items()})
            losses.append(float(getattr(output, "loss", output)))
    return sum(losses) / len(losses)


CONFIGS = [
    Config("gpt"),
    Config("gpt", micro_batches=3),
    Config("gpt", strategy="zero3", micro_batches=3),
    Config("gpt_tied", strategy="hpz", micro_batches=2),
    Config("gpt", strategy="zero2"),
    Config("gpt", strategy="zero1", micro_batches=2),
    Config("gpt", strategy="hsdp"),
    Config("gpt", strategy="ddp", micro_batches=2),
    Config("gpt", local=1),
    Config("gpt", nodes=1, local=2),
    Config("mlp_dropout", micro_batches=2),
    Config("residual_bn"),
    Config("peft_lora", micro_batches=2),
    Config("gpt", micro_batches=2, optimizer="muon,lr=1e-2+adamw,lr=1e-3,eps=1e-3"),
    Config("gpt", strategy="zero3", optimizer="adafactor,lr=1e-2"),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_training_does_not_notice(workshop: Workshop, config: Config, tmp_path: Path) -> None:
    plain = workshop.run(config, STEPS)
    evaluated = evaluate(workshop, config, tmp_path, "--eval-every=1")
    memory = ("system_allocations", "device_peak_bytes", "host_cache_bytes")
    times = ("seconds", "seconds_left", "exposed_seconds", "tokens_per_second")
    ignored = (*memory, *times, "control_bytes")

    def figures(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{key: value for key, value in line.items() if key not in ignored} for line in lines]

    assert figures(evaluated.steps) == figures(plain.steps)
    assert evaluated.parameters.read_bytes() == plain.parameters.read_bytes()
    assert [line["step"] for line in evaluated.evaluations] == [1, 2, 3, 4]


ONE_RANK = Config("residual_bn", nodes=1, local=1)
"""Each rank has running statistics of its own, and what a run writes are those of rank 0."""


@pytest.mark.parametrize(
    "config", [ONE_RANK if config.model == ONE_RANK.model else config for config in CONFIGS], ids=lambda config: config.name
)
def test_the_loss_is_pytorchs(workshop: Workshop, config: Config, tmp_path: Path) -> None:
    [last] = evaluate(workshop, config, tmp_path).evaluations
    assert last["step"] == STEPS
    assert last["batches"] == ROWS // config.world
    expected = pytorch_loss(workshop, config, tmp_path / "out.safetensors", last["batches"])
    assert last["evaluation_loss"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_strategies_have_equal_losses(workshop: Workshop, micro_batches: int, tmp_path: Path) -> None:
    losses = []
    for strategy in ("zero3", "fcdp", "hpz", "zero2"):
        (tmp_path / strategy).mkdir()
        config = Config("gpt", strategy=strategy, micro_batches=micro_batches)
        run = evaluate(workshop, config, tmp_path / strategy, "--eval-every=2")
        losses.append([line["evaluation_loss"] for line in run.evaluations])
    assert losses == [losses[0]] * len(losses)


@pytest.mark.parametrize("config", [Config("gpt"), Config("gpt", nodes=1, local=1, strategy="zero3")], ids=lambda c: c.name)
def test_without_training(workshop: Workshop, config: Config, tmp_path: Path) -> None:
    """The loss of weights, and of a checkpoint of another mesh, is that after the steps of a job."""
    trained = Config("gpt", nodes=1, local=2)
    after = evaluate(workshop, trained, tmp_path, f"--save-dir={tmp_path / 'run'}").evaluations[-1]
    _, inputs = evaluation_data(workshop, config.model)
    step, mesh = step_with_evaluation(workshop, config), (f"--nodes={config.nodes}", f"--ranks-per-node={config.local}")
    files, log = [f"--eval-input={name}={path}" for name, path in inputs.items()], tmp_path / "alone.jsonl"
    command = [BIN / "fcdp-run", step, *mesh, "--threads=1", "--steps=0", f"--json={log}", *files]
    for source, number in ((f"--weights={tmp_path / 'out.safetensors'}", 0), (f"--resume={tmp_path / 'run'}", STEPS)):
        tool(*command, source)
        *_, alone = read_log(log)
        assert alone["step"] == number
        assert alone["evaluation_loss"] == pytest.approx(after["evaluation_loss"], rel=1e-6)
    weights = f"--weights={tmp_path / 'out.safetensors'}"
    with pytest.raises(ToolError, match=r"--save-dir: expected --steps of at least 1, got 0"):
        tool(*command, weights, f"--save-dir={tmp_path / 'other'}")
    with pytest.raises(ToolError, match=r"--steps=0: expected --eval-input NAME=FILE"):
        tool(*command[: -len(files)], weights)
    with pytest.raises(ToolError, match=r"--steps=0: expected a step that was compiled with --eval"):
        tool(BIN / "fcdp-run", workshop.step(config), *command[2:], weights)
    with pytest.raises(ToolError, match=r"--input nothing: unknown"):
        tool(*command, weights, "--input=nothing=x.npy")


@pytest.mark.parametrize(
    "config",
    [
        Config("gpt"),
        Config("gpt_tied", strategy="zero3"),
        Config("gpt", strategy="hpz", micro_batches=2),
        Config("peft_lora", 1, 2, "ddp"),
        Config("residual_bn", 1, 1),
    ],
    ids=lambda c: c.name,
)
def test_nothing_to_train(workshop: Workshop, config: Config, tmp_path: Path) -> None:
    """Parameters that are kept are gathered before the first batch, and not again."""
    archive, inputs = evaluation_data(workshop, config.model)
    step, log = tmp_path / "eval.so", tmp_path / "log.jsonl"
    tool(*compile_command(config, f"--eval={archive}", step))
    plan = read_plan(step)
    assert not any(bucket["trainable"] for bucket in plan["buckets"])
    assert not [function for function in plan["functions"] if function["role"] == "update" and function["first"] < function["end"]]
    mesh = (f"--nodes={config.nodes}", f"--ranks-per-node={config.local}")
    files = [f"--eval-input={name}={path}" for name, path in inputs.items()]
    weights = workshop.model(config.model).archive
    command = [BIN / "fcdp-run", step, f"--weights={weights}", *mesh, "--threads=1", *files, f"--json={log}"]
    tool(*command, "--steps=0", f"--params-out={tmp_path / 'out.safetensors'}")
    [evaluated] = read_log(log)
    expected = pytorch_loss(workshop, config, tmp_path / "out.safetensors", evaluated["batches"])
    assert evaluated["evaluation_loss"] == pytest.approx(expected, rel=1e-6)
    if config.strategy == "fcdp":
        assert evaluated["inter_bytes_sent"] == 0
    with pytest.raises(ToolError, match=r"--steps: expected 0 for a step that was compiled for evaluations alone, got 1"):
        tool(*command, "--steps=1")


def gathered(plan: dict[str, Any], trainable: bool) -> int:
    """W: bytes of the gathered copies of buckets."""
    return sum(b["elements"] * TYPE_BYTES[b["wire"]] for b in plan["buckets"] if b["trainable"] == trainable)


@pytest.mark.parametrize(
    ("strategy", "micro_batches", "gathers"), [("fcdp", 1, 1), ("fcdp", 3, 1), ("zero3", 3, 3), ("hpz", 3, 1), ("zero2", 1, 3)]
)
def test_bytes_of_an_evaluation(
    workshop: Workshop, strategy: str, micro_batches: int, gathers: int, tmp_path: Path
) -> None:
    """A = 1/2: what a step keeps for later micro-batches, or in host memory, is gathered once in an evaluation."""
    config = Config("gpt", strategy=strategy, micro_batches=micro_batches)
    batches = ROWS // config.world
    assert batches == 3
    w = gathered(read_plan(step_with_evaluation(workshop, config)), trainable=True)
    [first, second] = evaluate(workshop, config, tmp_path, "--eval-every=2").evaluations
    keys = ("inter_bytes_sent", "intra_bytes_sent", "h2d_bytes", "d2h_bytes")
    assert [first[key] for key in keys] == [second[key] for key in keys]
    loads = (batches - 1) * w if strategy == "fcdp" else 0
    # Each of two ranks receives half of a copy from the other.
    expected = [gathers * w // 2, batches * w, loads, w if strategy == "fcdp" else 0]
    assert [first[key] for key in keys] == expected


def test_what_is_frozen_is_not_fetched_again(workshop: Workshop, tmp_path: Path) -> None:
    config = Config("peft_lora")
    plan = read_plan(step_with_evaluation(workshop, config))
    [last] = evaluate(workshop, config, tmp_path).evaluations
    assert last["inter_bytes_sent"] == gathered(plan, trainable=True) // 2
    assert gathered(plan, trainable=False) > gathered(plan, trainable=True)


def test_held_out_rows(workshop: Workshop, tmp_path: Path) -> None:
    """Without files of its own an evaluation reads what --data holds out."""
    config = Config("gpt")
    archive, _ = evaluation_data(workshop, "gpt")
    model, mesh = workshop.model("gpt"), ("--nodes=2", "--ranks-per-node=2")
    step, out, log = tmp_path / "step.so", tmp_path / "out.safetensors", tmp_path / "log.jsonl"
    example = {name: torch.from_numpy(np.load(path)[0].copy()) for name, path in model.inputs.items()}
    fcdp.export(build("gpt").eval(), example, tmp_path / "eval.pt2", train=False)
    tool(*compile_command(config, model.archive, step), f"--eval={tmp_path / 'eval.pt2'}")
    command = run_command(step, model.archive, model.inputs, 3, *mesh, f"--json={log}", f"--params-out={out}")
    tool(*command, "--data=shuffle=1,validation=0.5")
    [last] = [line for line in read_log(log) if "evaluation_loss" in line]
    assert last["batches"] == 3
    trained = build("gpt").eval()
    trained.load_state_dict(load_file(out), strict=False)
    rows = {name: torch.from_numpy(np.load(path)[12:]) for name, path in model.inputs.items()}
    with torch.no_grad():
        losses = [float(trained(**{name: row[i] for name, row in rows.items()})) for i in range(12)]
    assert last["evaluation_loss"] == pytest.approx(sum(losses) / 12, rel=1e-6)
    with pytest.raises(ToolError, match=r"--eval-every: expected --eval-input NAME=FILE"):
        tool(*command, "--eval-every=1")
    with pytest.raises(ToolError, match=r"--eval-input nothing: unknown; the evaluation's inputs are"):
        tool(*command, "--eval-input=nothing=x.npy")
    with pytest.raises(ToolError, match=r"--eval-every: expected a step that was compiled with --eval"):
        plain = run_command(workshop.step(config), model.archive, model.inputs, 3, *mesh)
        tool(*plain, "--eval-every=1")


def test_the_best_checkpoint_is_kept(workshop: Workshop, tmp_path: Path) -> None:
    """With a rate that makes the loss grow, the first checkpoint is the best one, also after a restart."""
    config = Config("gpt", nodes=1, local=2)
    options = ("--eval-every=1", "--keep-best", "--keep=1", "--save-every=2", f"--save-dir={tmp_path / 'run'}", "--lr=0.3")
    run = evaluate(workshop, config, tmp_path, *options, steps=4)
    losses = {line["step"]: line["evaluation_loss"] for line in run.evaluations}
    best = min(losses, key=lambda step: losses[step])
    assert best < 4

    def kept() -> list[int]:
        return sorted(int(path.name.removeprefix("step-")) for path in (tmp_path / "run").iterdir())

    assert kept() == sorted({best, 4})
    job = json.loads((tmp_path / "run" / "step-00000004" / "index.json").read_text())["job"]
    assert (job["best_step"], job["best_evaluation_loss"]) == (best, losses[best])
    resumed = evaluate(workshop, config, tmp_path, *options, "--resume", steps=6)
    assert resumed.evaluations[: len(run.evaluations)] == run.evaluations
    losses = {line["step"]: line["evaluation_loss"] for line in resumed.evaluations}
    best = min(losses, key=lambda step: losses[step])
    assert kept() == sorted({best, 6})


class Offset(torch.nn.Module):
    """Has a constant whose shape is that of the batch."""

    def __init__(self, rows: int):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 1)
        self.register_buffer("offset", torch.arange(rows) / rows, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.linear(x)[:, 0] - self.offset).square().mean()


def test_constants_of_its_own(tmp_path: Path) -> None:
    """Checkpoints have the step's constant of that name."""
    rows = torch.randn(4, 6, 4)
    inputs = [tmp_path / "x.npy", tmp_path / "longer.npy"]
    np.save(inputs[0], rows[:, :2].numpy())
    np.save(inputs[1], rows.numpy())
    train, evaluation, step, run = (tmp_path / name for name in ("train.pt2", "eval.pt2", "step.so", "run"))
    fcdp.export(Offset(2), (rows[0, :2],), train)
    fcdp.export(Offset(6).eval(), (rows[0],), evaluation, train=False)
    tool(*compile_command(Config("", 1, 1), train, step), f"--eval={evaluation}")
    log, out = tmp_path / "log.jsonl", tmp_path / "out.safetensors"
    for steps in (2, 4):
        command = run_command(step, train, {"x": inputs[0]}, steps, f"--eval-input=x={inputs[1]}", f"--json={log}")
        tool(*command, f"--save-dir={run}", "--resume", f"--params-out={out}")
    last = read_log(log)[-1]
    model = Offset(6)
    model.load_state_dict(load_file(out))
    with torch.no_grad():
        assert last["evaluation_loss"] == pytest.approx(sum(float(model(x)) for x in rows) / 4, rel=1e-6)
    index = json.loads((run / "step-00000004" / "index.json").read_text())
    assert [state["shape"] for state in index["states"] if state["names"] == ["offset"]] == [[2]]


class Seen(torch.nn.Module):
    """Keeps the mean of all inputs that it was trained on in a buffer that no state_dict has."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 1)
        self.register_buffer("seen", torch.zeros(4), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen += x.mean(0)
        return (self.linear(x - self.seen) - 1).square().mean()


def test_a_buffer_that_the_step_changes(tmp_path: Path) -> None:
    """An evaluation sees what the steps before it have made of it, though it is not persistent."""
    rows = torch.randn(4, 2, 4)
    np.save(tmp_path / "x.npy", rows.numpy())
    train, evaluation, step, log = (tmp_path / name for name in ("train.pt2", "eval.pt2", "step.so", "log.jsonl"))
    fcdp.export(Seen(), (rows[0],), train)
    fcdp.export(Seen().eval(), (rows[0],), evaluation, train=False)
    tool(*compile_command(Config("", 1, 1, optimizer="sgd,lr=0.01"), train, step), f"--eval={evaluation}")
    command = run_command(step, train, {"x": tmp_path / "x.npy"}, 3, f"--eval-input=x={tmp_path / 'x.npy'}", f"--json={log}")
    tool(*command, "--eval-every=1")
    found = [line["evaluation_loss"] for line in read_log(log) if "evaluation_loss" in line]
    model, expected = Seen(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x in rows[:3]:
        optimizer.zero_grad()
        model.train()(x).backward()
        optimizer.step()
        with torch.no_grad():
            expected.append(sum(float(model.eval()(row)) for row in rows) / 4)
    assert found == pytest.approx(expected, rel=1e-5)


def test_archives_of_different_models(workshop: Workshop, tmp_path: Path) -> None:
    archive, _ = evaluation_data(workshop, "gpt_tied")
    with pytest.raises(ToolError, match="the evaluation ties .* which the step does not"):
        tool(*compile_command(Config("gpt"), workshop.model("gpt").archive, tmp_path / "s.so"), f"--eval={archive}")
    archive, _ = evaluation_data(workshop, "residual_bn")
    with pytest.raises(ToolError, match="the evaluation has a parameter .* which the step lacks"):
        tool(*compile_command(Config("gpt"), workshop.model("gpt").archive, tmp_path / "s.so"), f"--eval={archive}")
    with pytest.raises(ToolError, match="changes the buffer .* export it after model.eval"):
        training = workshop.model("residual_bn").archive
        tool(*compile_command(Config("residual_bn"), training, tmp_path / "s.so"), f"--eval={training}")
    assert not (tmp_path / "s.so").exists()
