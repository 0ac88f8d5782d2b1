# SPDX-License-Identifier: Apache-2.0
"""A rank that dies ends all of them, soon and with its name."""

import re
import signal
import subprocess
import time
from pathlib import Path

from harness import MANY_STEPS, Config, Workshop, environment, rank_environments, read_log, run_command, started, wait_for_step

LIMIT_SECONDS = 30
VICTIM = 2


def ranks_of(launcher: int) -> dict[int, int]:
    """Process ids of a launcher's children by rank."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    names = {int(child): Path(f"/proc/{child}/comm").read_text() for child in children}
    return {int(name.removeprefix("fcdp-run-")): child for child, name in names.items()}


def test_killed_rank_of_own_launcher(workshop: Workshop, tmp_path: Path) -> None:
    model = workshop.model("gpt")
    files = (f"--json={tmp_path / 'log'}", f"--params-out={tmp_path / 'out'}")
    command = run_command(workshop.step(Config("gpt")), model.archive, model.inputs, MANY_STEPS, *files)
    with started([(command, environment())]) as (launcher,):
        wait_for_step(launcher)
        ranks = ranks_of(launcher.pid)
        Path(f"/proc/{ranks[VICTIM]}").stat()
        begin = time.monotonic()
        subprocess.run(["kill", "-KILL", str(ranks[VICTIM])], check=True)
        _, errors = launcher.communicate(timeout=LIMIT_SECONDS)
        assert time.monotonic() - begin < LIMIT_SECONDS
    assert launcher.returncode == 1
    assert len(re.findall("error:", errors)) == 1 and f"rank {VICTIM} " in errors, errors
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks.values())
    # The log outlives the job; no other file does.
    assert list(tmp_path.iterdir()) == [tmp_path / "log"]
    assert [step["step"] for step in read_log(tmp_path / "log")][:2] == [1, 2]


def test_killed_rank_without_launcher(workshop: Workshop) -> None:
    config, model = Config("gpt"), workshop.model("gpt")
    command = run_command(workshop.step(config), model.archive, model.inputs, MANY_STEPS)
    with started([(command, variables) for variables in rank_environments(config)]) as ranks:
        wait_for_step(ranks[0])
        ranks[VICTIM].send_signal(signal.SIGKILL)
        deadline = time.monotonic() + LIMIT_SECONDS
        said = ""
        for rank, process in enumerate(ranks):
            _, errors = process.communicate(timeout=max(deadline - time.monotonic(), 1))
            assert process.returncode == (-signal.SIGKILL if rank == VICTIM else 1), errors
            said += errors
    assert f"rank {VICTIM} " in said, said
