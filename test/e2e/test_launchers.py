# SPDX-License-Identifier: Apache-2.0
"""Other launchers than fcdp-run itself: the same losses bit for bit."""

import shutil
import sys
from pathlib import Path

import pytest

from harness import Config, Workshop, environment, free_port, rank_environments, read_log, run_command, started, tool

STEPS = 3


def losses(path: Path) -> list[float]:
    return [step["loss"] for step in read_log(path)]


def test_torchrun_on_two_nodes(workshop: Workshop, tmp_path: Path) -> None:
    config, model = Config("gpt"), workshop.model("gpt")
    log, port = tmp_path / "log.jsonl", free_port()
    command = run_command(workshop.step(config), model.archive, model.inputs, STEPS, f"--json={log}")
    torchrun = [
        Path(sys.executable).with_name("torchrun"),
        "--no-python",
        f"--nnodes={config.nodes}",
        f"--nproc-per-node={config.local}",
        "--master-addr=127.0.0.1",
        f"--master-port={port}",
    ]
    agents = [([*torchrun, f"--node-rank={node}", *command], environment()) for node in range(config.nodes)]
    with started(agents) as processes:
        for process in processes:
            _, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
    assert losses(log) == workshop.run(config, 4).losses[:STEPS]


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun")
def test_mpirun(workshop: Workshop, tmp_path: Path) -> None:
    config, model = Config("gpt", 1, 2), workshop.model("gpt")
    log = tmp_path / "log.jsonl"
    command = run_command(workshop.step(config), model.archive, model.inputs, STEPS, f"--json={log}")
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    tool("mpirun", "-n", "2", "--oversubscribe", *command, env=environment(as_root))
    assert losses(log) == workshop.run(config, STEPS).losses


def test_two_jobs_at_once(workshop: Workshop, tmp_path: Path) -> None:
    config, model = Config("gpt"), workshop.model("gpt")
    logs = [tmp_path / f"{job}.jsonl" for job in range(2)]
    step = workshop.step(config)
    commands = [run_command(step, model.archive, model.inputs, STEPS, f"--json={log}") for log in logs]
    with started([(command, environment()) for command in commands]) as processes:
        for process in processes:
            _, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
    expected = workshop.run(config, 4).losses[:STEPS]
    assert [losses(log) for log in logs] == [expected, expected]


def test_variables_as_torchrun_sets_them(workshop: Workshop, tmp_path: Path) -> None:
    """Without an agent, rank 0 serves the store."""
    config, model = Config("gpt"), workshop.model("gpt")
    log = tmp_path / "log.jsonl"
    command = run_command(workshop.step(config), model.archive, model.inputs, STEPS, f"--json={log}")
    with started([(command, variables) for variables in rank_environments(config)]) as processes:
        for process in processes:
            _, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
    assert losses(log) == workshop.run(config, 4).losses[:STEPS]
