# SPDX-License-Identifier: Apache-2.0
"""fcdp-ckpt holds one state in memory, whatever the size of the checkpoint."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from made_checkpoints import Made, write

STATES, BYTES = 16, 16 << 20

PROGRAM = """
import json, resource, sys
from fcdp.checkpoint.cli import main
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
codes = [main(arguments) for arguments in json.loads(sys.argv[1])]
print(json.dumps([codes, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10]))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of 256 MiB."""
    data = torch.arange(BYTES // 4, dtype=torch.float32).view(-1, 64)
    settings = {"updates": 1, "trainable": True}
    states = [Made([f"layers.{i}.weight"], "value", data + i, settings=settings) for i in range(STATES)]
    return write(tmp_path_factory.mktemp("large") / "step-00000001", states, world_size=3, step=1)


def peak(*commands: list[object]) -> int:
    """The memory that commands in one process take, besides the program."""
    text = json.dumps([[str(part) for part in command] for command in commands])
    command = [sys.executable, "-c", PROGRAM, text]
    codes, bytes_ = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    assert codes == [0] * len(commands)
    return bytes_


def test_hugging_face(tmp_path: Path, source: Path) -> None:
    there, back = tmp_path / "there", tmp_path / "back"
    commands = (["convert", source, there, "--to=hf"], ["convert", there, back, "--to=fcdp"], ["diff", source, back])
    assert peak(*commands) < 4 * BYTES


def test_dcp(tmp_path: Path, source: Path) -> None:
    there, back = tmp_path / "there", tmp_path / "back"
    # PyTorch's writer keeps a file of up to 128 MiB.
    assert peak(["convert", source, there, "--to=dcp"]) < (128 << 20) + 3 * BYTES
    assert peak(["convert", there, back, "--to=fcdp"]) < 5 * BYTES
