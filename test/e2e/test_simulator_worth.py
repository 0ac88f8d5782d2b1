# SPDX-License-Identifier: Apache-2.0
"""benchmarks/simulator/worth.py: that its variants of a step differ in what they are named for."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_fused_norms_and_calls_without_threads_save_time(tmp_path):
    command = [sys.executable, ROOT / "benchmarks/simulator/worth.py", f"--cache={tmp_path}", "--layers=1"]
    done = subprocess.run([*command, f"--tools={ROOT / 'build/bin'}"], capture_output=True, text=True, check=True)
    rows = [line.rsplit(maxsplit=4) for line in done.stdout.splitlines() if line.endswith("ms")]
    times = {name.strip(): (float(kept), float(recomputed)) for name, kept, _, recomputed, _ in rows}
    step = times.pop("the step as it is")
    assert set(times) == {"RMS norms operator by operator", "communicators that do not block"}
    for slower in times.values():
        assert slower[0] > step[0] and slower[1] > step[1]
