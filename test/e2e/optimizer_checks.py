# SPDX-License-Identifier: Apache-2.0
"""What the tests of all optimizers ask of a step: planned memory, and checkpoints that go on elsewhere."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from checkpoints import assert_equal_tensors, read_checkpoint
from fcdp.checkpoint.cli import main
from harness import Config, ToolError, Workshop, read_plan, run_command, tool

STEPS = 4


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
