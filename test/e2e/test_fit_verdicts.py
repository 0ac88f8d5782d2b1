# SPDX-License-Identifier: Apache-2.0
"""A step that fits a device by fcdp-sim --fit runs within its memory (benchmarks/memory/verdicts.py has more)."""

import sys
from pathlib import Path

import pytest

from harness import BIN, ROOT, Workshop

sys.path.insert(0, str(ROOT / "benchmarks" / "memory"))

import verdicts  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

SETTINGS = ("none", "states=host", "remat=auto+states=auto+activations=auto")


def test_verdicts_hold(workshop: Workshop, tmp_path: Path) -> None:
    model = workshop.model("gpt")
    inputs = [f"--input={name}={source}" for name, source in model.inputs.items()]
    judged = verdicts.judge(model.archive, inputs, model.name, SETTINGS, BIN, tmp_path)
    assert [one.settings for one in judged] == list(SETTINGS)
    for one in judged:
        assert one.holds
        # Nothing is left over that the plan does not have, either.
        assert one.peak == pytest.approx(one.planned, rel=0.02)
    plain, _, auto = judged
    assert auto.memory < plain.memory
