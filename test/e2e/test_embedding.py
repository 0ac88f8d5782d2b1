# SPDX-License-Identifier: Apache-2.0
"""A program that embeds a step by its C interface trains as fcdp-run does, and goes on from the state that it saved."""

import json
import sys
from pathlib import Path

import pytest

from evaluated import evaluation_data, step_with_evaluation
from harness import ADAMW, Config, Workshop, rank_environments, run_command, started, tool
from test_loss_scale import OPTION, SCALED

SCRIPT = Path(__file__).with_name("embedded.py")


def embed(config: Config, *arguments: object) -> list[tuple[float, float]]:
    """Losses and loss scales that rank 0 prints."""
    command: list[str | Path] = [sys.executable, SCRIPT, *map(str, arguments)]
    with started([(command, variables) for variables in rank_environments(config)]) as ranks:
        outputs = [rank.communicate(timeout=180) for rank in ranks]
        assert all(rank.returncode == 0 for rank in ranks), outputs
    lines = [line.split() for line in outputs[0][0].splitlines()]
    return [(float(loss), float(scale)) for loss, scale in lines]


def losses(workshop: Workshop, config: Config, first: int, last: int, source: Path, save_to: Path) -> list[float]:
    save_to.mkdir()
    inputs = workshop.model(config.model).inputs.values()
    return [loss for loss, _ in embed(config, workshop.step(config), first, last, source, *inputs, f"--save-to={save_to}")]


@pytest.mark.parametrize(
    "config",
    [
        Config("gpt", 2, 2, "fcdp", 2, ADAMW),
        Config("gpt", 1, 2, "zero2", 1, "sgd,lr=0.1,momentum=0.9"),
        Config("convnet_bn", 1, 1, "fcdp", 1, ADAMW),
    ],
    ids=lambda config: config.name,
)
def test_trains_and_goes_on(workshop: Workshop, tmp_path: Path, config: Config) -> None:
    expected = workshop.run(config, 4).losses
    begun = losses(workshop, config, 0, 2, workshop.model(config.model).archive, tmp_path / "half")
    assert begun == expected[:2]
    # Moments and counts of updates, too: without them AdamW would go elsewhere.
    assert losses(workshop, config, 2, 4, tmp_path / "half", tmp_path / "whole") == expected[2:]


def test_scales_losses_and_evaluates(workshop: Workshop, tmp_path: Path) -> None:
    """The evaluation's loss is not scaled, and steps after an overflow are those of fcdp-run."""
    model, step, steps = workshop.model(SCALED.model), step_with_evaluation(workshop, SCALED), 6
    _, held_out = evaluation_data(workshop, SCALED.model)
    log = tmp_path / "log.jsonl"
    held_out_options = [f"--eval-input={name}={path}" for name, path in held_out.items()]
    tool(*run_command(step, model.archive, model.inputs, steps, OPTION, *held_out_options, f"--json={log}"))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    expected = [(line["loss"], line["loss_scale"]) for line in lines if "loss" in line]
    assert len({scale for _, scale in expected}) > 1
    expected.append((lines[-1]["evaluation_loss"], -1))
    arguments = (step, 0, steps, model.archive, *model.inputs.values())
    files = [f"--eval-input={path}" for path in held_out.values()]
    assert embed(SCALED, *arguments, OPTION, *files) == expected
