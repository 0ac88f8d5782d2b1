# SPDX-License-Identifier: Apache-2.0
"""A job that gets no more threads ends with one sentence that names the limits."""

import re
import subprocess
from pathlib import Path

import pytest
from harness import Config, Workshop, environment, run_command

LIMITS = r"cannot start .+: a limit on threads and processes is reached, .*\(ulimit -u: \w+\).*\(pids.max: \w+\)"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("threads") / "few_threads.so"
    source = Path(__file__).with_name("few_threads.c")
    subprocess.run(["clang-22", "-shared", "-fPIC", source, "-o", out], check=True)
    return out


@pytest.mark.parametrize(("local", "count"), [(1, 0), (1, 2), (2, 6)])
def test_fcdp_run(workshop: Workshop, library: Path, tmp_path: Path, local: int, count: int) -> None:
    """A rank alone, or two, gets so many threads."""
    config = Config("tiny_params", 1, local)
    model = workshop.model(config.model)
    command = run_command(workshop.step(config), model.archive, model.inputs, 2, f"--save-dir={tmp_path / 'run'}")
    variables = environment({"LD_PRELOAD": str(library), "FCDP_THREADS": str(count)})
    done = subprocess.run([str(p) for p in command], capture_output=True, text=True, timeout=60, env=variables)
    # c10d logs a line of its own where its loop did not start.
    assert done.returncode == 1 and re.search(LIMITS, done.stderr.splitlines()[-1]), done.stderr
