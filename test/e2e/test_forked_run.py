# SPDX-License-Identifier: Apache-2.0
"""fcdp-run does and prints in a process that fork-run forks what it does in one of its own."""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forked_run import ForkedRun
from harness import BIN, environment

COMMANDS = [
    ["--help"],
    ["--version"],
    ["absent.so", "--steps=1"],
    ["not a step.so", "--steps=1"],
    ["--no-such-option"],
    ["--probe-cluster=absent/c.yaml"],
]


@pytest.fixture
def forked_run(tmp_path: Path) -> Iterator[ForkedRun]:
    forked = ForkedRun(BIN / "fork-run", environment({"TEST_FOLDER": str(tmp_path)}))
    yield forked
    forked.close()


def test_as_in_a_process_of_its_own(forked_run: ForkedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "not a step.so").write_text("not a step")
    monkeypatch.chdir(tmp_path)
    codes = set()
    for arguments in COMMANDS:
        command = [str(BIN / "fcdp-run"), *arguments]
        own = subprocess.run(command, capture_output=True, text=True, timeout=60, env=forked_run.environment)
        forked = forked_run.run(command, 60)
        assert (forked.returncode, forked.stdout, forked.stderr) == (own.returncode, own.stdout, own.stderr)
        codes.add(own.returncode)
    assert len(codes) > 1


def test_a_run_that_takes_too_long(forked_run: ForkedRun, tmp_path: Path) -> None:
    """All its processes end. A probe of two ranks takes seconds."""
    command = [str(BIN / "fcdp-run"), f"--probe-cluster={tmp_path / 'c.yaml'}", "--ranks-per-node=2"]
    assert count_processes(tmp_path) == 1
    with pytest.raises(subprocess.TimeoutExpired):
        forked_run.run(command, 0.5)
    deadline = time.monotonic() + 60
    while count_processes(tmp_path) > 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert count_processes(tmp_path) == 0


def count_processes(folder: Path) -> int:
    """Returns how many processes have the folder in their environment."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            count += f"TEST_FOLDER={folder}".encode() in path.read_bytes()
    return count
