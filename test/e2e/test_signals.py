# SPDX-License-Identifier: Apache-2.0
"""Signals that were ignored when a job started stay ignored, and a job that is stopped goes on."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from harness import MANY_STEPS, Config, Workshop, environment, run_command, wait_for_step
from test_failures import ranks_of

CONFIG = Config("gpt", 2, 1)


@contextlib.contextmanager
def launched(workshop: Workshop, prefix: Sequence[str], *extra: str) -> Iterator[subprocess.Popen[str]]:
    """fcdp-run with its ranks, as the leader of a process group, which a shell makes of a command."""
    model = workshop.model("gpt")
    command = run_command(workshop.step(CONFIG), model.archive, model.inputs, MANY_STEPS, *extra)
    process = subprocess.Popen(
        [*prefix, *(str(part) for part in command)],
        env=environment(),
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def next_step(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step "):
            return int(line.split()[1])
    raise AssertionError(process.communicate()[1])


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_an_ignored_signal_stays_ignored(workshop: Workshop, number: signal.Signals) -> None:
    ignore = ["nohup"] if number == signal.SIGHUP else ["sh", "-c", f'trap "" {number.name[3:]}; exec "$@"', "sh"]
    with launched(workshop, ignore) as launcher:
        wait_for_step(launcher)
        ranks = ranks_of(launcher.pid)
        os.killpg(launcher.pid, number)
        time.sleep(1)
        for _ in range(100):
            last = next_step(launcher)
        assert launcher.poll() is None and last > 100
        other = signal.SIGTERM if number != signal.SIGTERM else signal.SIGINT
        launcher.send_signal(other)
        _, errors = launcher.communicate(timeout=30)
        assert launcher.returncode == 128 + other, errors
        assert not any(Path(f"/proc/{rank}").exists() for rank in ranks.values())


@pytest.mark.parametrize("is_ignored", [False, True])
def test_a_job_with_checkpoints_ends_with_one(workshop: Workshop, tmp_path: Path, is_ignored: bool) -> None:
    """If the signal reaches the ranks, too, as members of a process group, and if they have inherited to ignore
    SIGTERM."""
    prefix = ["sh", "-c", 'trap "" TERM; exec "$@"', "sh"] if is_ignored else []
    number = signal.SIGINT if is_ignored else signal.SIGTERM
    with launched(workshop, prefix, f"--save-dir={tmp_path / 'saved'}") as launcher:
        wait_for_step(launcher)
        os.killpg(launcher.pid, number)
        _, errors = launcher.communicate(timeout=60)
        assert launcher.returncode == 128 + number, errors
    assert errors == ""
    assert len(list((tmp_path / "saved").glob("step-*"))) == 1


def test_a_rank_that_is_stopped_does_not_keep_the_launcher(workshop: Workshop) -> None:
    """It cannot end by itself, and the launcher gives the others 18 seconds to do so."""
    with launched(workshop, [], "--timeout=2") as launcher:
        wait_for_step(launcher)
        os.kill(ranks_of(launcher.pid)[1], signal.SIGSTOP)
        begin = time.monotonic()
        _, errors = launcher.communicate(timeout=60)
        assert time.monotonic() - begin < 16, errors
    assert launcher.returncode == 1 and errors.count("error: ") == 1 and "rank 1" in errors, errors


def test_a_stopped_job_goes_on(workshop: Workshop) -> None:
    """Ctrl-Z and fg, for longer than the limit of silence."""
    with launched(workshop, [], "--timeout=50") as launcher:
        wait_for_step(launcher)
        os.killpg(launcher.pid, signal.SIGTSTP)
        time.sleep(1)
        processes = [launcher.pid, *ranks_of(launcher.pid).values()]
        states = [Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] for process in processes]
        assert states == ["T"] * 3
        time.sleep(9)
        os.killpg(launcher.pid, signal.SIGCONT)
        end = time.monotonic() + 5
        while time.monotonic() < end:
            next_step(launcher)
        assert launcher.poll() is None
