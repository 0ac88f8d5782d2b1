# SPDX-License-Identifier: Apache-2.0
"""A program that embeds a step by its C interface trains as fcdp-run does, and goes on from the state that it saved."""

import sys
from pathlib import Path

import pytest

from harness import ADAMW, Config, Workshop, free_port, rank_environment, started

SCRIPT = Path(__file__).with_name("embedded.py")


def losses(workshop: Workshop, config: Config, first: int, last: int, source: Path, save_to: Path) -> list[float]:
    save_to.mkdir()
    model = workshop.model(config.model)
    arguments = (workshop.step(config), first, last, source, save_to, *model.inputs.values())
    command: list[str | Path] = [sys.executable, SCRIPT, *map(str, arguments)]
    port = free_port()
    with started([(command, rank_environment(config, rank, port)) for rank in range(config.world)]) as ranks:
        outputs = [rank.communicate(timeout=180) for rank in ranks]
        assert all(rank.returncode == 0 for rank in ranks), outputs
    return [float(line) for line in outputs[0][0].splitlines()]


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
