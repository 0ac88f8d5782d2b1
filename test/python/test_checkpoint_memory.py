# SPDX-License-Identifier: Apache-2.0
"""fcdp-ckpt holds one state in memory, and the copies of it being written, whatever the size of the checkpoint."""

import json
import os
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
dcp_writer._FILE_BYTES = int(sys.argv[3])

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) << 10

def run(commands):
    return [main(arguments) for arguments in json.loads(commands)]

codes = run(sys.argv[1])
before = peak()
codes += run(sys.argv[2])
print(json.dumps([codes, peak() - before]))
"""


def write_states(folder: Path, bytes_: int) -> Path:
    data = torch.arange(bytes_ // 4, dtype=torch.float32).view(-1, 64)
    settings = {"updates": 1, "trainable": True}
    states = [Made([f"layers.{i}.weight"], "value", data + i, settings=settings) for i in range(STATES)]
    return write(folder / "step-00000001", states, world_size=3, step=1)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A checkpoint of 64 KiB and one of 192 MiB."""
    sizes = {"small": 4 << 10, "large": BYTES}
    return [write_states(tmp_path_factory.mktemp(name), bytes_) for name, bytes_ in sizes.items()]


def peak(commands: list[list[list[object]]]) -> int:
    """The memory that commands take more than the same commands before them, which load the code that both use."""
    texts = [json.dumps([[str(part) for part in command] for command in each]) for each in commands]
    command = [sys.executable, "-c", PROGRAM, *texts, str(FILE_BYTES)]
    # Blocks of this size go back to the system when they are freed, and leave no gaps.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
    result = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    codes, bytes_ = json.loads(result.stdout.splitlines()[-1])
    assert codes == [0] * sum(map(len, commands))
    return bytes_


def convert_and_back(source: Path, folder: Path, format_: str) -> list[list[object]]:
    there, back = folder / "there", folder / "back"
    return [
        ["convert", source, there, f"--to={format_}"],
        ["convert", there, back, "--to=fcdp"],
        ["diff", source, back],
    ]


def test_hugging_face(tmp_path: Path, sources: list[Path]) -> None:
    commands = [convert_and_back(source, tmp_path / str(i), "hf") for i, source in enumerate(sources)]
    assert peak(commands) < 4 * BYTES


def test_dcp(tmp_path: Path, sources: list[Path]) -> None:
    commands = [convert_and_back(source, tmp_path / str(i), "dcp")[:2] for i, source in enumerate(sources)]
    assert peak(commands) < 4 * BYTES
