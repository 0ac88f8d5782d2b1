# SPDX-License-Identifier: Apache-2.0
"""benchmarks/issue: libtorch's operators for CUDA on a device that does nothing (scripts/test-torch-cuda)."""

import re
import sys

import pytest

from harness import BIN, ROOT, environment, tool

pytestmark = pytest.mark.skipif(not (BIN / "fcdp-run-idle").exists(), reason="fcdp is built with a libtorch without CUDA")


def test_a_step_is_issued() -> None:
    program = ROOT / "benchmarks/issue/run.py"
    options = ["--layers=1", "--steps=5", "--operators", f"--home={BIN.parent}"]
    text = tool(sys.executable, program, *options, env=environment({"PYTHONPATH": str(ROOT / "python")}))

    def number(pattern: str) -> float:
        found = re.search(pattern, text)
        assert found, text
        return float(found[1])

    # Each operator of libtorch launches a kernel, and the backend's copies and sums none on one rank.
    of_torch = sum(int(calls) for calls in re.findall(r"^  (?:aten\.\w+\.\w+|shard_update): (\d+) times", text, re.M))
    views = number(r"(\d+) views")
    assert number(r"(\d+) launches of kernels") >= of_torch - views > 0
    assert number(r"(\d+) graphs") > 0
    assert number(r"(\d+) launches outside") < number(r"(\d+) launches of kernels")
    assert number(r"price of an operator, .*: ([\d.]+) us") > number(r"operator alone: ([\d.]+) us") > 0
    assert number(r"price of a collective: ([\d.]+) us") > number(r"collective alone: ([\d.]+) us") > 0
    assert number(r"of a copy: ([\d.]+) us") > number(r"copy alone: ([\d.]+) us") > 0
