# SPDX-License-Identifier: Apache-2.0
"""A job that gets no more threads ends with one sentence that names the limits."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from harness import BIN, Config, Workshop, environment, run_command

CONFIG = Config("tiny_params", 1, 2)
LIMITS = r"cannot start .+: a limit on threads and processes is reached, .*\(ulimit -u: \w+\).*\(pids.max: \w+\)"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("threads") / "few_threads.so"
    source = Path(__file__).with_name("few_threads.c")
    subprocess.run(["clang-22", "-shared", "-fPIC", source, "-o", out], check=True)
    return out


def test_fcdp_run(workshop: Workshop, library: Path, tmp_path: Path) -> None:
    """Each thread that it starts is once the first one that it does not get."""
    model = workshop.model(CONFIG.model)
    step, folder = workshop.step(CONFIG), tmp_path / "run"
    command = run_command(step, model.archive, model.inputs, 2, f"--save-dir={folder}")
    for count in range(100):
        variables = environment({"LD_PRELOAD": str(library), "FCDP_THREADS": str(count)})
        done = subprocess.run([str(p) for p in command], capture_output=True, text=True, timeout=60, env=variables)
        if done.returncode == 0:
            break
        assert done.returncode == 1 and re.search(LIMITS, done.stderr), f"{count} threads: {done.stderr}"
        assert done.stderr.count("\n") == 1
    assert count > 5


LOOP = """
import ctypes, sys
import torch
import fcdp
torch.set_num_threads(1)
model, inputs = torch.nn.Linear(4, 1), (torch.ones(2, 4),)
threads = ctypes.CDLL(sys.argv[1])
with_threads = fcdp.compile(model, inputs, loss_fn=lambda y: y.sum(), optimizer="sgd", cache=sys.argv[2])
with_threads.close()
threads.allow_threads(0)
try:
    fcdp.compile(model, inputs, loss_fn=lambda y: y.sum(), optimizer="sgd", cache=sys.argv[2])
except fcdp.StepError as error:
    threads.allow_threads(1 << 30)
    print(error)
"""


def test_fcdp_compile(library: Path, tmp_path: Path) -> None:
    variables = environment({"LD_PRELOAD": str(library), "PATH": f"{BIN}:/usr/bin:/bin"})
    command = [sys.executable, "-c", LOOP, str(library), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=variables)
    assert done.returncode == 0 and re.search(LIMITS, done.stdout), done.stdout + done.stderr
