# SPDX-License-Identifier: Apache-2.0
"""Mistakes of docs/training.md have the messages that it shows."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

import fcdp
from harness import BIN, ROOT, Config, Workshop, environment
from models import build

GUIDE = ROOT / "docs/training.md"
INPUTS = ["--input=ids=tokens.bin:u16", "--input=labels=tokens.bin:u16+1"]
RUN = [BIN / "fcdp-run", "step.so", "--weights=step.pt2", "--steps=1", "--threads=1"]
FIRST_OF_FOUR = {
    "RANK": "0",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "0",
    "GROUP_WORLD_SIZE": "2",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "0",
}


def shown(number: int) -> str:
    """The message of a mistake in the guide."""
    found = re.search(rf"^{number}\. .*?\n\n +(.*?)\n", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    assert found, number
    return found[1]


@pytest.fixture
def folder(workshop: Workshop, tmp_path: Path) -> Path:
    config = Config("gpt")
    (tmp_path / "step.so").symlink_to(workshop.step(config))
    (tmp_path / "step.pt2").symlink_to(workshop.model("gpt").archive)
    (np.arange(4096, dtype="<u2") % 7).tofile(tmp_path / "tokens.bin")
    return tmp_path


def error(folder: Path, *command: str | Path, env: dict[str, str] = {}) -> str:
    """The message of a command that fails."""
    command_line = [str(part) for part in command]
    done = subprocess.run(command_line, cwd=folder, capture_output=True, text=True, timeout=120, env=environment(env))
    assert done.returncode == 1, done.stdout + done.stderr
    return next(line for line in done.stderr.splitlines() if "error: " in line)


def works(folder: Path, *command: str | Path) -> None:
    subprocess.run([str(part) for part in command], cwd=folder, check=True, capture_output=True, timeout=120, env=environment())


def same_but_for_numbers(found: str, expected: str) -> bool:
    """Whether messages agree, where the guide has numbers of another model."""
    return re.sub(r"\d+", "0", found) == re.sub(r"\d+", "0", expected)


def test_an_archive_is_run(folder: Path) -> None:
    assert error(folder, BIN / "fcdp-run", "step.pt2", "--weights=step.pt2", "--steps=1", *INPUTS) == shown(1)


def test_a_folder_is_missing(folder: Path) -> None:
    assert error(folder, *RUN, *INPUTS, "--json=absent/log.jsonl") == shown(2)


def test_inputs_are_not_those_of_forward(folder: Path) -> None:
    with pytest.raises(fcdp.ExportError) as raised:
        fcdp.export(build("gpt"), torch.zeros(2, 4, dtype=torch.int64), folder / "other.pt2")
    assert str(raised.value) == shown(3)


def test_a_model_returns_no_loss(folder: Path) -> None:
    with pytest.raises(fcdp.ExportError) as raised:
        fcdp.export(torch.nn.Linear(2, 3), torch.zeros(4, 2), folder / "other.pt2")
    assert str(raised.value) == shown(4)


def test_tokens_are_not_in_the_vocabulary(folder: Path) -> None:
    np.arange(4096, dtype="<u2").tofile(folder / "tokens.bin")
    assert same_but_for_numbers(error(folder, *RUN, *INPUTS), shown(5))


def test_other_ranks(folder: Path) -> None:
    assert error(folder, *RUN, *INPUTS, "--nodes=4") == shown(6)


def test_ranks_do_not_start(folder: Path) -> None:
    assert error(folder, *RUN, *INPUTS, "--timeout=3", env=FIRST_OF_FOUR) == shown(7)


def test_the_plan_does_not_fit(folder: Path) -> None:
    found = error(folder, BIN / "fcdp-compile", "step.pt2", "--nodes=2", "--device-memory=1e3", "-o", "small.so")
    assert same_but_for_numbers(found, shown(8))


def test_another_optimizer_resumes_and_a_job_saves_where_another_did(folder: Path) -> None:
    works(folder, *RUN, *INPUTS, "--save-dir=run")
    assert error(folder, *RUN, *INPUTS, "--save-dir=run") == shown(10)
    other = "--optimizer=sgd,lr=0.1,momentum=0.9"
    works(folder, BIN / "fcdp-compile", "step.pt2", "--nodes=2", "--ranks-per-node=2", other, "-o", "other.so")
    assert error(folder, BIN / "fcdp-run", "other.so", *RUN[2:], *INPUTS, "--save-dir=run", "--resume").startswith(shown(9))
