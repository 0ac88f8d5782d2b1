# SPDX-License-Identifier: Apache-2.0
"""The job of examples/cluster, with an srun that starts all ranks on this machine."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np

from harness import BIN, ROOT, Config, Workshop, environment, read_log

SRUN = """#!/bin/bash
[[ $1 == --kill-on-bad-exit=1 ]] && shift
echo $$ > "$RUN/srun.pid"
exec "$@" --threads=1
"""

SCONTROL = """#!/bin/bash
echo "$@" > "$RUN/requeued"
"""


def start(folder: Path) -> subprocess.Popen[str]:
    env = environment({"RUN": str(folder), "SLURM_JOB_ID": "17", "PATH": f"{folder}:{BIN}:{os.environ['PATH']}"})
    job = ROOT / "examples/cluster/job.sbatch"
    return subprocess.Popen(["bash", job], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def steps_after(job: subprocess.Popen[str], log: Path, step: int) -> None:
    """Waits until a step after `step` is in the log."""
    while job.poll() is None:
        lines = log.read_text().splitlines() if log.exists() else []
        if lines and lines[-1].endswith("}") and json.loads(lines[-1])["step"] > step:
            return
        time.sleep(0.02)
    raise AssertionError(job.communicate()[0])


def test_a_job_whose_time_is_over_is_queued_again_and_goes_on(workshop: Workshop, tmp_path: Path) -> None:
    config = Config("gpt", micro_batches=2)
    for name, text in {"srun": SRUN, "scontrol": SCONTROL}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "step.so").symlink_to(workshop.step(config))
    (tmp_path / "train.pt2").symlink_to(workshop.model(config.model).archive)
    (np.arange(4096, dtype="<u2") % 7).tofile(tmp_path / "tokens.bin")

    last = 0
    for _ in range(2):
        job = start(tmp_path)
        steps_after(job, tmp_path / "log.jsonl", last)
        os.kill(int((tmp_path / "srun.pid").read_text()), signal.SIGTERM)
        output = job.communicate(timeout=120)[0]
        assert job.returncode == 0, output
        assert (tmp_path / "requeued").read_text() == "requeue 17\n"
        (tmp_path / "requeued").unlink()
        assert ("resumed from" in output) == (last > 0)
        steps = [line["step"] for line in read_log(tmp_path / "log.jsonl")]
        assert steps == list(range(1, steps[-1] + 1)) and steps[-1] > last
        last = steps[-1]

    (tmp_path / "tokens.bin").unlink()
    job = start(tmp_path)
    assert "tokens.bin" in job.communicate(timeout=120)[0]
    assert job.returncode == 1 and not (tmp_path / "requeued").exists()
