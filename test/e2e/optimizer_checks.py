# SPDX-License-Identifier: Apache-2.0
"""The checks that all optimizers have in common: equal bits, planned memory, skipped steps, and checkpoints that go on
elsewhere."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from checkpoints import States, assert_equal_tensors, read_checkpoint
from fcdp.checkpoint.cli import main
from harness import Config, ToolError, Workshop, assert_bit_equal, parameters, read_log, read_plan, run_command, tool

STEPS = 4
# Everything at once but the optimizer and groups.
EVERYTHING = Config("gpt_bf16", micro_batches=2, clip_norm=0.05, master="f32", reduce_dtype="f32")
each_strategy = pytest.mark.parametrize("strategy", ["zero1", "zero2", "zero3", "hpz", "hsdp", "mics", "ddp"])
each_layout = pytest.mark.parametrize(
    "other", [{"layout": "owned"}, {"layout": "ragged<8>"}, {"bucket_bytes": 1 << 16}, {"prefetch": 0}], ids=str
)


def assert_strategy_is_bit_equal(workshop: Workshop, config: Config, strategy: str) -> None:
    accumulate = "sharded" if strategy in ("zero1", "mics") else ""
    other = replace(config, strategy=strategy, accumulate=accumulate)
    assert_bit_equal(workshop.run(config, STEPS), workshop.run(other, STEPS))


def assert_layout_is_bit_equal(workshop: Workshop, config: Config, other: dict[str, object]) -> None:
    """Parameters are compared by name, for layouts order them in other ways."""
    expected, actual = (parameters(workshop.run(one, STEPS).parameters) for one in (config, replace(config, **other)))
    assert expected.keys() == actual.keys()
    for name, value in expected.items():
        assert torch.equal(actual[name], value), name


class WarmUp:
    """Runs STEPS steps whose learning rate reaches its full height in the fourth."""

    def __init__(self, workshop: Workshop, folder: Path):
        self.workshop, self.log, self.weights = workshop, folder / "log.jsonl", folder / "weights.safetensors"

    def run(self, config: Config) -> dict[str, torch.Tensor]:
        """Returns the parameters at the end."""
        given = self.workshop.model(config.model)
        files = ("--schedule=constant,warmup=3", f"--json={self.log}", f"--params-out={self.weights}")
        tool(*run_command(self.workshop.step(config), given.archive, given.inputs, STEPS, *files))
        return parameters(self.weights)

    def losses(self, rate: float) -> list[float]:
        """Returns those of the last run, whose learning rates follow from `rate`, the full one."""
        lines = read_log(self.log)
        assert [line["learning_rate"] for line in lines] == [rate * min(1, step / 3) for step in range(STEPS)]
        return [line["loss"] for line in lines]


def skip_overflowing_steps(workshop: Workshop, optimizer: str, folder: Path) -> tuple[States, States]:
    """Trains with a first loss scale that is too large. Returns the states after step 1, which is skipped, and at the
    end."""
    config = Config("gpt_f16", 1, 2, "fcdp", 2, optimizer, master="f32", loss_scale=True)
    model = workshop.model(config.model)
    files = (f"--json={folder / 'log.jsonl'}", f"--save-dir={folder}", "--save-every=1", "--keep=99")
    scale = "--loss-scale=init=16777216,growth=2,backoff=0.25,interval=100"
    tool(*run_command(workshop.step(config), model.archive, model.inputs, 8, *files, scale))
    skipped = [line["skipped_steps"] for line in read_log(folder / "log.jsonl")]
    assert skipped[0] == 1 and skipped[-1] == skipped[-2]
    first, last = (read_checkpoint(folder / f"step-{step:08}").states for step in (1, 8))
    return first, last


def assert_planned_memory(workshop: Workshop, config: Config) -> None:
    """Each step but the first, which is recorded, takes the memory that is planned."""
    planned = read_plan(workshop.step(config))["planned"]["device_bytes"]
    for step in workshop.run(config, STEPS).steps[1:]:
        assert step["device_peak_bytes"] == pytest.approx(planned, rel=0.02)


def save(workshop: Workshop, config: Config, folder: Path, steps: int, *extra: str) -> None:
    """Trains up to `steps` and saves every other step."""
    model = workshop.model(config.model)
    files = (f"--save-dir={folder}", "--save-every=2", "--keep=9", *extra)
    tool(*run_command(workshop.step(config), model.archive, model.inputs, steps, *files))


def assert_checkpoints_go_on(
    workshop: Workshop, folder: Path, config: Config, others: Sequence[Config], roles: set[str], role: str
) -> Path:
    """A run that goes on from its half ends as one that went through, and each of `others` has the same states.

    `roles` are those of all states but buffers. States of `role` change after the half, whose checkpoint is returned.
    """
    save(workshop, config, folder / "whole", STEPS)
    half = folder / "whole" / f"step-{STEPS // 2:08}"
    save(workshop, config, folder / "again", STEPS, f"--resume={half}")
    whole, again = (read_checkpoint(folder / name / f"step-{STEPS:08}") for name in ("whole", "again"))
    assert_equal_tensors(whole.states, again.states)
    assert {found for found, _ in whole.states} - {"buffer"} == roles
    before = read_checkpoint(half).states
    names = [name for found, name in whole.states if found == role]
    assert names and any(not whole.states[role, name].equal(before[role, name]) for name in names)
    latest = folder / "again"
    for number, other in enumerate(others):
        save(workshop, other, folder / f"other-{number}", STEPS, f"--resume={latest}")
        latest = folder / f"other-{number}"
        assert_equal_tensors(whole.states, read_checkpoint(latest / f"step-{STEPS:08}").states)
    # Back where they came from, they go on.
    save(workshop, config, folder / "back", STEPS + 1, f"--resume={latest}")
    save(workshop, config, folder / "whole", STEPS + 1, "--resume")
    back, whole = (read_checkpoint(folder / name / f"step-{STEPS + 1:08}") for name in ("back", "whole"))
    assert_equal_tensors(whole.states, back.states)
    return half


def assert_converts(checkpoint: Path, folder: Path, *arguments: str) -> None:
    """A checkpoint is the same after it was one of PyTorch's."""
    assert main(["convert", str(checkpoint), str(folder / "dcp"), "--to=dcp", *arguments]) == 0
    assert main(["convert", str(folder / "dcp"), str(folder / "converted"), "--to=fcdp"]) == 0
    assert main(["diff", str(checkpoint), str(folder / "converted")]) == 0


def assert_refuses(workshop: Workshop, folder: Path, saved: Config, other: Config, message: str) -> None:
    """`other` cannot go on from a checkpoint of `saved`, a step of the same model."""
    save(workshop, saved, folder / saved.name, 1)
    with pytest.raises(ToolError, match=message):
        save(workshop, other, folder / other.name, 2, f"--resume={folder / saved.name}")
