# SPDX-License-Identifier: Apache-2.0
"""Steps of several shapes: padded batches of several lengths over one set of states."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fcdp
from checkpoints import assert_equal_tensors, read_checkpoint
from closed_forms import traffic
from evaluated import evaluation_data
from expectations import LIVE_RANGES, LOSS_TOLERANCE
from harness import (
    LONG,
    Config,
    Run,
    ToolError,
    Workshop,
    assert_bit_equal,
    compile_command,
    parameters,
    rank_environments,
    read_log,
    read_plan,
    relative_error,
    run_command,
    tool,
)
from models import BATCH, TIME, VOCABULARY, build
from python_ranks import run_ranks

STEPS = 5
LENGTHS = (TIME // 4, TIME // 2, TIME)
CHOSEN = (0, 2, 1, 1, 0)
"""The variant that each step needs."""
IGNORED = -100


@dataclass(frozen=True)
class Padded:
    """Rows of the greatest length, padded; the archives of each length."""

    archives: list[Path]
    inputs: dict[str, Path]


def export(workshop: Workshop, model: str) -> list[Path]:
    def make() -> list[Path]:
        paths = []
        for length in LENGTHS:
            tokens = torch.zeros(BATCH, length, dtype=torch.int64)
            paths.append(workshop.folder / f"{model}.length{length}.pt2")
            fcdp.export(build(model), {"ids": tokens, "labels": tokens}, paths[-1])
        return paths

    return workshop._once(("lengths", model), make)


def padded(workshop: Workshop, config: Config) -> Padded:
    """Only one rank needs the variant of its step, and in one of its micro-batches."""

    def make() -> dict[str, Path]:
        rng = np.random.default_rng(11)
        batches = config.micro_batches * config.world
        rows = {name: [] for name in ("ids", "labels")}
        for variant in CHOSEN:
            longest = rng.integers(batches)
            for index in range(batches):
                # Others are at most as long as the least variant.
                length = LENGTHS[variant] if index == longest else rng.integers(1, LENGTHS[0] + 1)
                tokens = rng.integers(1, VOCABULARY, (BATCH, length + 1))
                tokens[1, length // 2 + 1 :] = 0  # rows of a batch differ in length, too
                labels = np.where(tokens[:, 1:] == 0, IGNORED, tokens[:, 1:])
                behind = ((0, 0), (0, TIME - length))
                rows["ids"].append(np.pad(tokens[:, :-1], behind))
                rows["labels"].append(np.pad(labels, behind, constant_values=IGNORED))
        paths = {name: workshop.folder / f"padded-{config.world}-{config.micro_batches}.{name}.npy" for name in rows}
        for name, path in paths.items():
            np.save(path, np.stack(rows[name]))
        return paths

    key = ("padded", config.world, config.micro_batches)
    return Padded(export(workshop, config.model), workshop._once(key, make))


def compile_shapes(workshop: Workshop, config: Config, *extra: str | Path) -> Path:
    def make() -> Path:
        first, *others = padded(workshop, config).archives
        out = workshop.folder / f"{config.name}.{len(extra)}.shapes.so"
        tool(*compile_command(config, first, out), *others, *extra)
        return out

    return workshop._once(("shapes", config, extra), make)


def run_shapes(workshop: Workshop, config: Config, folder: Path, *extra: str | Path, steps: int = STEPS) -> Run:
    data = padded(workshop, config)
    log, out = folder / "log.jsonl", folder / "out.safetensors"
    mesh = (f"--nodes={config.nodes}", f"--ranks-per-node={config.local}")
    options = (f"--pad=labels={IGNORED}", f"--json={log}", f"--params-out={out}", *extra)
    step = compile_shapes(workshop, config)
    tool(*run_command(step, data.archives[0], data.inputs, steps, *mesh, *options))
    return Run([line for line in read_log(log) if "loss" in line], out)


def run_one_length(workshop: Workshop, step: Path, config: Config, variant: int, folder: Path, *extra: str) -> Run:
    """A run on rows that all have one length, as they are."""
    rng = np.random.default_rng(variant)
    tokens = rng.integers(0, VOCABULARY, (16, BATCH, LENGTHS[variant] + 1))
    inputs = {"ids": folder / "ids.npy", "labels": folder / "labels.npy"}
    np.save(inputs["ids"], tokens[:, :, :-1])
    np.save(inputs["labels"], tokens[:, :, 1:])
    log, out = folder / "log.jsonl", folder / "out.safetensors"
    mesh = (f"--nodes={config.nodes}", f"--ranks-per-node={config.local}")
    archive = export(workshop, config.model)[variant]
    tool(*run_command(step, archive, inputs, 3, *mesh, f"--json={log}", f"--params-out={out}", *extra))
    return Run(read_log(log), out)


STRATEGIES = ["zero3", "fcdp", "hpz", "zero2", "zero1", "hsdp", "mics"]


@pytest.mark.parametrize(
    ("micro_batches", "strategy"),
    [
        *((3, strategy) for strategy in STRATEGIES),
        *((1, strategy) for strategy in ("fcdp", "zero2")),
        *(pytest.param(1, strategy, marks=LONG) for strategy in STRATEGIES if strategy not in ("fcdp", "zero2")),
    ],
)
def test_strategies_are_bit_equal(workshop: Workshop, micro_batches: int, strategy: str, tmp_path: Path) -> None:
    """Losses, parameters and the choice of variants; zero1 and mics sum gradients in another order."""
    config = Config("gpt", strategy=strategy, micro_batches=micro_batches)
    accumulate = {"zero1": "full", "mics": "node"}.get(strategy, "") if micro_batches > 1 else ""
    base = replace(config, strategy="zero3", accumulate=accumulate, prefetch=0)
    folders = [tmp_path / name for name in ("one", "base")]
    for folder in folders:
        folder.mkdir()
    one, other = (run_shapes(workshop, each, folder) for each, folder in zip((config, base), folders))
    assert_bit_equal(one, other)
    assert [step["variant"] for step in one.steps] == list(CHOSEN)
    assert [step["variant"] for step in other.steps] == list(CHOSEN)


def test_coded_wires_are_bit_equal(workshop: Workshop, tmp_path: Path) -> None:
    """A gather of differences refers to the step before, whatever its shape."""
    config = Config("gpt_bf16", master="f32", micro_batches=2, wire="delta", reduce_wire="coded")
    runs = []
    for each in (config, replace(config, wire="", reduce_wire="")):
        folder = tmp_path / f"wire{each.wire}"
        folder.mkdir()
        runs.append(run_shapes(workshop, each, folder))
    assert_bit_equal(*runs)
    assert runs[0].traffic[-1].inter < runs[1].traffic[-1].inter


def pytorch(workshop: Workshop, config: Config) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Training on the batches that are cut to the step's length."""
    arrays = {name: np.load(path) for name, path in padded(workshop, config).inputs.items()}
    batches = config.micro_batches * config.world

    def inputs(step: int) -> list[dict[str, torch.Tensor]]:
        length = LENGTHS[CHOSEN[step]]
        rows = range(step * batches, (step + 1) * batches)
        return [{name: torch.from_numpy(array[row, :, :length].copy()) for name, array in arrays.items()} for row in rows]

    model = build(config.model)
    losses = fcdp.reference(model, inputs, config.optimizer, STEPS, world=config.world, seed=0)
    return losses, dict(model.named_parameters())


@pytest.mark.parametrize("config", [Config("gpt"), Config("gpt", micro_batches=3), Config("gpt", nodes=1, local=2)], ids=lambda c: c.name)
def test_losses_are_those_of_pytorch(workshop: Workshop, config: Config, tmp_path: Path) -> None:
    run = run_shapes(workshop, config, tmp_path)
    losses, expected = pytorch(workshop, config)
    assert relative_error(run.losses, losses) <= LOSS_TOLERANCE[config.model]
    for name, value in parameters(run.parameters).items():
        torch.testing.assert_close(value, expected[name].detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("variant", range(len(LENGTHS)))
@pytest.mark.parametrize("config", [Config("gpt"), Config("gpt", strategy="zero3", micro_batches=2)], ids=lambda c: c.name)
def test_one_length_is_the_step_of_that_length(workshop: Workshop, config: Config, variant: int, tmp_path: Path) -> None:
    """Bits and bytes are those of the object of that length, and memory is that of the greatest."""
    singles = []
    for index, archive in enumerate(export(workshop, config.model)):
        singles.append(tmp_path / f"{index}.so")
        tool(*compile_command(config, archive, singles[-1]))
    folders = [tmp_path / name for name in ("one", "several")]
    for folder in folders:
        folder.mkdir()
    several = compile_shapes(workshop, config)
    alone = run_one_length(workshop, singles[variant], config, variant, folders[0])
    run = run_one_length(workshop, several, config, variant, folders[1])
    assert_bit_equal(alone, run)
    assert [step["variant"] for step in run.steps] == [variant] * 3
    assert run.traffic == alone.traffic
    plans = [read_plan(step) for step in singles]
    assert read_plan(several)["planned"] == plans[-1]["planned"]
    assert read_plan(several)["device_bytes"] == max(plan["device_bytes"] for plan in plans)


@pytest.mark.parametrize(("strategy", "micro_batches"), [("fcdp", 1), ("fcdp", 3), ("zero3", 3), ("hpz", 3), ("zero2", 1)])
def test_bytes_are_the_closed_forms(workshop: Workshop, strategy: str, micro_batches: int, tmp_path: Path) -> None:
    config = Config("gpt", strategy=strategy, micro_batches=micro_batches)
    plan = read_plan(compile_shapes(workshop, config))
    once, each = traffic(plan, strategy, LIVE_RANGES["gpt"])
    run = run_shapes(workshop, config, tmp_path)
    assert run.traffic == [once + each] + [each] * (STEPS - 1)
    # After each variant has been recorded, operators take memory of their pool only.
    seen: set[int] = set()
    for step in run.steps:
        assert step["variant"] not in seen or step["system_allocations"] == 0
        seen.add(step["variant"])


@pytest.mark.parametrize("config", [Config("gpt"), Config("gpt", strategy="hpz", micro_batches=3)], ids=lambda c: c.name)
def test_evaluations_between_steps(workshop: Workshop, config: Config, tmp_path: Path) -> None:
    """Training does not notice them."""
    folders = [tmp_path / name for name in ("plain", "evaluated")]
    for folder in folders:
        folder.mkdir()
    plain = run_shapes(workshop, config, folders[0])
    archive, inputs = evaluation_data(workshop, config.model)
    data = padded(workshop, config)
    step = compile_shapes(workshop, config, f"--eval={archive}")
    log, out = folders[1] / "log.jsonl", folders[1] / "out.safetensors"
    files = [f"--eval-input={name}={path}" for name, path in inputs.items()]
    options = (f"--pad=labels={IGNORED}", f"--json={log}", f"--params-out={out}", "--eval-every=1", *files)
    mesh = (f"--nodes={config.nodes}", f"--ranks-per-node={config.local}")
    tool(*run_command(step, data.archives[0], data.inputs, STEPS, *mesh, *options))
    lines = read_log(log)
    evaluated = Run([line for line in lines if "loss" in line], out)
    assert_bit_equal(plain, evaluated)
    assert plain.traffic == evaluated.traffic
    losses = [line["evaluation_loss"] for line in lines if "evaluation_loss" in line]
    assert len(losses) == STEPS and len(set(losses)) == STEPS


@pytest.mark.parametrize("config", [Config("gpt"), Config("gpt", micro_batches=2)], ids=lambda c: c.name)
def test_goes_on_from_a_checkpoint(workshop: Workshop, config: Config, tmp_path: Path) -> None:
    """A run that is cut in two is the whole one; the step of one length reads its checkpoints."""
    folders = [tmp_path / name for name in ("whole", "first", "second")]
    for folder in folders:
        folder.mkdir()
    whole = run_shapes(workshop, config, folders[0], f"--save-dir={tmp_path / 'whole-run'}")
    save = f"--save-dir={tmp_path / 'run'}"
    run_shapes(workshop, config, folders[1], save, steps=2)
    rest = run_shapes(workshop, config, folders[2], save, "--resume")
    assert rest.losses == whole.losses[2:]
    assert [step["variant"] for step in rest.steps] == list(CHOSEN[2:])
    assert rest.parameters.read_bytes() == whole.parameters.read_bytes()
    last = f"step-{STEPS:08}"
    one, other = (read_checkpoint(tmp_path / run / last) for run in ("whole-run", "run"))
    assert_equal_tensors(one.states, other.states)
    single, params = tmp_path / "single.so", tmp_path / "single.safetensors"
    tool(*compile_command(config, export(workshop, config.model)[-1], single))
    inputs = padded(workshop, config).inputs
    mesh = (f"--nodes={config.nodes}", f"--ranks-per-node={config.local}", f"--params-out={params}")
    tool(*run_command(single, tmp_path / "unused", inputs, STEPS, *mesh, f"--resume={tmp_path / 'run' / last}"))
    assert params.read_bytes() == whole.parameters.read_bytes()


class Counts(torch.nn.Module):
    """Has a running sum, a constant of the batch's length, and a parameter that is frozen."""

    def __init__(self, length: int):
        super().__init__()
        torch.manual_seed(0)
        self.scale = torch.nn.Linear(1, 4)
        self.frozen = torch.nn.Linear(4, 4).requires_grad_(False)
        self.register_buffer("sum", torch.zeros(4))
        self.register_buffer("weights", torch.arange(length) / length, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.frozen(self.scale(x[:, None]))
        self.sum += y.detach().sum(0)
        return (y * self.weights[:, None]).square().sum() + self.sum.mean()


def test_buffers_and_constants(tmp_path: Path) -> None:
    """A buffer is one for all variants; a constant that differs is each variant's own, and no state of the job."""
    archives = [tmp_path / f"{length}.pt2" for length in (2, 5)]
    for length, path in zip((2, 5), archives):
        fcdp.export(Counts(length), (torch.zeros(length),), path)
    rng = np.random.default_rng(0)
    rows = np.zeros((4, 5), dtype=np.float32)
    lengths = (2, 5, 1, 4)
    for row, length in zip(rows, lengths):
        row[:length] = rng.random(length, dtype=np.float32) + 1
    np.save(tmp_path / "x.npy", rows)
    step, out, log = tmp_path / "step.so", tmp_path / "out.safetensors", tmp_path / "log.jsonl"
    config = Config("", nodes=1, local=1, optimizer="sgd,lr=0.01")
    tool(*compile_command(config, archives[0], step), archives[1])
    names = [state["name"] for state in read_plan(step)["buffers"]]
    assert sorted(names) == ["sum", "weights", "weights"]
    files = (f"--json={log}", f"--params-out={out}", f"--save-dir={tmp_path / 'run'}")
    tool(*run_command(step, archives[0], {"x": tmp_path / "x.npy"}, 4, "--nodes=1", "--ranks-per-node=1", *files))
    assert [line["variant"] for line in read_log(log)] == [0, 1, 0, 1]
    model = Counts(5)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01)
    for row, length in zip(rows, lengths):
        used = 2 if length <= 2 else 5
        model.weights = torch.arange(used) / used
        optimizer.zero_grad()
        loss = model(torch.from_numpy(row[:used].copy()))
        loss.backward()
        optimizer.step()
    written = parameters(out)
    torch.testing.assert_close(written["sum"], model.sum, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(written["scale.weight"], model.scale.weight.detach(), rtol=1e-5, atol=1e-6)
    assert "weights" not in written


def test_a_loop_of_pytorch(workshop: Workshop, tmp_path: Path) -> None:
    """Ranks give batches of their own lengths; the losses are those of fcdp-run."""
    config = Config("gpt", micro_batches=3)
    expected = run_shapes(workshop, config, tmp_path)
    inputs = str(padded(workshop, config).inputs["ids"]).removesuffix(".ids.npy")
    script, lengths = Path(__file__).with_name("looped_shapes.py"), ",".join(map(str, LENGTHS))
    arguments = [config.model, inputs, config.micro_batches, STEPS, tmp_path / "cache", lengths]
    ranks = run_ranks(script, arguments, rank_environments(config), timeout=300)
    lines = [line.split() for line in ranks[0].out.splitlines()]
    assert [float(loss) for loss, _ in lines] == expected.losses
    assert [int(variant) for _, variant in lines] == list(CHOSEN)


BAD: list[tuple[list[str], str]] = [
    (["--pad=nothing=1"], r"padding of input 'nothing': the step has no input of that name"),
    (["--pad=ids=x"], r"--pad: expected NAME=VALUE, with a number, got 'ids=x'"),
    (["--pad=ids=0.5"], r"padding of input 'ids': expected a whole number"),
    (["--pad=ids=96"], r"padding of input 'ids': .*value 96 .*expected \[0, 96\)"),
    (["--pad=ids=1", "--pad=ids=1"], r"--pad ids: given twice"),
]


def test_what_is_refused(workshop: Workshop, tmp_path: Path) -> None:
    config = Config("gpt", nodes=1, local=1)
    data = padded(workshop, config)
    command = run_command(compile_shapes(workshop, config), data.archives[0], data.inputs, 1)
    for options, message in BAD:
        with pytest.raises(ToolError, match=message):
            tool(*command, *options)
    single = tmp_path / "single.so"
    tool(*compile_command(config, data.archives[-1], single))
    with pytest.raises(ToolError, match=r"padding of input 'labels': expected a step of several shapes"):
        tool(*run_command(single, data.archives[0], data.inputs, 1), "--pad=labels=0")
    np.save(tmp_path / "long.npy", np.zeros((1, BATCH, TIME + 1), dtype=np.int64))
    inputs: dict[str, Any] = {**data.inputs, "ids": tmp_path / "long.npy"}
    with pytest.raises(ToolError, match=rf"expected at most shape \[M, {BATCH}, {TIME}\], got \[1, {BATCH}, {TIME + 1}\]"):
        tool(*run_command(compile_shapes(workshop, config), data.archives[0], inputs, 1))
