# SPDX-License-Identifier: Apache-2.0
"""A loss or gradient that is NaN or infinite ends the run, or its step makes no update, or the run goes on: as
asked."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from checkpoints import assert_equal_tensors, folders, read_checkpoint, updates
from harness import ADAMW, Config, ToolError, Workshop, read_log, run_command, tool
from models import build

MOMENTUM = "sgd,lr=0.01,momentum=0.9"
STEPS = 4


class Job:
    """A run of `STEPS` steps on data of which one row has been damaged, and one of the same data without that step."""

    def __init__(self, workshop: Workshop, folder: Path, config: Config):
        self.config, self.folder = config, folder
        self.step, self.archive = workshop.step(config), workshop.model(config.model).archive
        self.rows = config.world * config.micro_batches
        rng = np.random.default_rng(1)
        self.data = {
            name: rng.standard_normal((STEPS * self.rows, 4, size), dtype=np.float32)
            for name, size in (("x", 8), ("y", 3))
        }

    def damage(self, step: int, value: float) -> None:
        """In the last micro-batch of the last rank."""
        self.data["x"][(step + 1) * self.rows - 1] = value

    def overflow(self, step: int) -> None:
        """The loss is finite, and its gradients are too large for float32. For the initial parameters."""
        row = (step + 1) * self.rows - 1
        self.data["x"][row] = 1e24
        model = build(self.config.model)
        with torch.no_grad():
            output = model.fc(torch.from_numpy(self.data["x"][row]) * model.scale)
        self.data["y"][row] = output.numpy() * (1 + 1e-6)

    def without(self, step: int) -> dict[str, np.ndarray]:
        rows = slice(step * self.rows, (step + 1) * self.rows)
        return {name: np.delete(values, rows, axis=0) for name, values in self.data.items()}

    def run(self, name: str, data: dict[str, np.ndarray], *extra: str) -> str:
        inputs = {key: self.folder / f"{name}-{key}.npy" for key in data}
        for key, values in data.items():
            np.save(inputs[key], values)
        files = (f"--json={self.folder / name}.jsonl", f"--save-dir={self.folder / name}")
        steps = len(data["x"]) // self.rows
        return tool(*run_command(self.step, self.archive, inputs, steps, *files, *extra))

    def log(self, name: str) -> list[dict]:
        return read_log(self.folder / f"{name}.jsonl")

    def assert_skipped(self, step: int) -> None:
        """Checks that step `step` leaves no trace: all is as in a run that never had it."""
        output = self.run("skip", self.data, "--on-nonfinite=skip")
        self.run("without", self.without(step), "--on-nonfinite=stop")
        assert output.count("skipped (1)") == 1, output
        skip, without = self.log("skip"), self.log("without")
        assert [line["skipped_steps"] for line in skip] == [int(i >= step) for i in range(STEPS)]
        losses = [line["loss"] for line in skip]
        assert losses[:step] + losses[step + 1 :] == [line["loss"] for line in without]
        one = read_checkpoint(self.folder / "skip" / f"step-{STEPS:08}")
        other = read_checkpoint(self.folder / "without" / f"step-{STEPS - 1:08}")
        assert_equal_tensors(one.states, other.states)
        assert set(updates(one).values()) == {(STEPS - 1, True)}
        assert updates(one) == updates(other)


TINY = Config("tiny_params", 2, 2, "fcdp", 2, ADAMW)
# Moments change, and parameters do not.
STILL = replace(TINY, optimizer="adamw,lr=1e-30")


@pytest.mark.parametrize("step", [0, 2])
@pytest.mark.parametrize(
    "config",
    [
        TINY,
        replace(TINY, strategy="zero3", optimizer=MOMENTUM),
        replace(TINY, strategy="zero2", clip_norm=1.0),
        replace(TINY, strategy="hpz", accumulate="node", optimizer=MOMENTUM, micro_batches=3),
        replace(TINY, strategy="hsdp", micro_batches=1),
        replace(TINY, nodes=1, local=1, strategy="ddp", optimizer=MOMENTUM),
        # Updates begin in the last micro-batch, after its loss.
        replace(TINY, states="host"),
        replace(TINY, states="host", update="host", micro_batches=1),
    ],
    ids=lambda config: config.name,
)
def test_a_skipped_step_leaves_nothing_behind(workshop: Workshop, tmp_path: Path, config: Config, step: int) -> None:
    job = Job(workshop, tmp_path, config)
    job.damage(step, np.nan)
    job.assert_skipped(step)


def test_a_step_is_skipped_by_the_norm_of_its_gradients(workshop: Workshop, tmp_path: Path) -> None:
    job = Job(workshop, tmp_path, replace(STILL, clip_norm=1e30))
    job.overflow(1)
    job.assert_skipped(1)
    assert all(line["loss"] is not None for line in job.log("skip"))


@pytest.mark.parametrize("config", [STILL, replace(STILL, states="host", micro_batches=1)], ids=lambda c: c.name)
@pytest.mark.parametrize("mode", ["stop", "skip"])
def test_infinite_gradients_without_a_norm_end_the_run(
    workshop: Workshop, tmp_path: Path, mode: str, config: Config
) -> None:
    job = Job(workshop, tmp_path, config)
    job.overflow(1)
    with pytest.raises(ToolError, match="exit code 1") as error:
        job.run("run", job.data, f"--on-nonfinite={mode}", "--save-every=1", "--keep=1")
    text = str(error.value)
    assert text.count("fcdp-run: error: ") == 1, text
    assert "fcdp-run: error: step 2: a gradient of '" in text
    assert ("expected a step that is compiled with --clip-norm" in text) == (mode == "skip")
    assert [line["loss"] is None for line in job.log("run")] == [False, False]
    assert folders(tmp_path / "run") == ["step-00000001"]


@pytest.mark.parametrize("config", [TINY, replace(TINY, clip_norm=1.0), replace(TINY, nodes=1, local=1)], ids=lambda config: config.name)
def test_an_infinite_loss_ends_the_run(workshop: Workshop, tmp_path: Path, config: Config) -> None:
    job = Job(workshop, tmp_path, config)
    job.damage(2, 1e30)
    with pytest.raises(ToolError, match="exit code 1") as error:
        job.run("run", job.data, "--save-every=1", "--keep=1")
    text = str(error.value)
    last = config.world - 1
    place = f"rank {last} (node {last // config.local}, local {last % config.local})"
    assert text.count("fcdp-run: error: ") == 1, text
    assert f"fcdp-run: error: step 3: the loss of micro-batch 2 of 2 on {place} is infinite" in text
    # The log has the step, and the last good checkpoint is there.
    assert [line["step"] for line in job.log("run")] == [1, 2, 3]
    assert job.log("run")[2]["loss"] is None
    assert folders(tmp_path / "run") == ["step-00000002"]


def test_the_run_goes_on_if_asked(workshop: Workshop, tmp_path: Path) -> None:
    job = Job(workshop, tmp_path, TINY)
    job.damage(1, np.nan)
    job.run("run", job.data, "--on-nonfinite=continue")
    # The update has made all parameters NaN.
    assert [line["loss"] is None for line in job.log("run")] == [False, True, True, True]
    states = read_checkpoint(tmp_path / "run" / f"step-{STEPS:08}").states
    assert all(value.isnan().all() for (role, *_), value in states.items() if role == "value")


def test_skipped_steps_are_counted_over_restarts(workshop: Workshop, tmp_path: Path) -> None:
    job = Job(workshop, tmp_path, TINY)
    for step in (0, 3):
        job.damage(step, np.nan)
    inputs = {key: tmp_path / f"{key}.npy" for key in job.data}
    for key, values in job.data.items():
        np.save(inputs[key], values)
    files = (f"--json={tmp_path / 'run.jsonl'}", f"--save-dir={tmp_path / 'run'}", "--resume", "--on-nonfinite=skip")
    for steps in (2, STEPS):
        tool(*run_command(job.step, job.archive, inputs, steps, *files))
    assert [line["skipped_steps"] for line in job.log("run")] == [1, 1, 1, 2]
    checkpoint = read_checkpoint(tmp_path / "run" / f"step-{STEPS:08}")
    assert checkpoint.index["job"]["skipped_steps"] == 2
    assert set(updates(checkpoint).values()) == {(2, True)}


def test_an_unknown_mode_is_refused(workshop: Workshop) -> None:
    with pytest.raises(ToolError, match="--on-nonfinite"):
        tool(*run_command(workshop.step(TINY), workshop.model(TINY.model).archive, {}, 1, "--on-nonfinite=ignore"))
