# SPDX-License-Identifier: Apache-2.0
"""fcdp-ckpt holds one state in memory, whatever the size of the checkpoint."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from made_checkpoints import Made, write

STATES, BYTES = 16, 12 << 20
# PyTorch's writer keeps a file of a distributed checkpoint, of at most 128 MiB. Here they are smaller.
FILE_BYTES = 24 << 20

# A process begins with the ru_maxrss of the one that started it, so this reads the kernel's mark of its own memory.
PROGRAM = """
import json, re, sys
from fcdp.checkpoint import dcp_writer
from fcdp.checkpoint.cli import main
dcp_writer._FILE_BYTES = int(sys.argv[2])

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) << 10

before = peak()
codes = [main(arguments) for arguments in json.loads(sys.argv[1])]
print(json.dumps([codes, peak() - before]))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of 192 MiB."""
    data = torch.arange(BYTES // 4, dtype=torch.float32).view(-1, 64)
    settings = {"updates": 1, "trainable": True}
    states = [Made([f"layers.{i}.weight"], "value", data + i, settings=settings) for i in range(STATES)]
    return write(tmp_path_factory.mktemp("large") / "step-00000001", states, world_size=3, step=1)


def peak(*commands: list[object]) -> int:
    """The memory that commands in one process take, besides the program."""
    text = json.dumps([[str(part) for part in command] for command in commands])
    command = [sys.executable, "-c", PROGRAM, text, str(FILE_BYTES)]
    codes, bytes_ = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    assert codes == [0] * len(commands)
    return bytes_


def test_hugging_face(tmp_path: Path, source: Path) -> None:
    there, back = tmp_path / "there", tmp_path / "back"
    commands = (["convert", source, there, "--to=hf"], ["convert", there, back, "--to=fcdp"], ["diff", source, back])
    assert peak(*commands) < 8 * BYTES


def test_dcp(tmp_path: Path, source: Path) -> None:
    there, back = tmp_path / "there", tmp_path / "back"
    commands = (["convert", source, there, "--to=dcp"], ["convert", there, back, "--to=fcdp"])
    assert peak(*commands) < FILE_BYTES + 9 * BYTES
