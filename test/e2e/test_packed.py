# SPDX-License-Identifier: Apache-2.0
"""Steps on packed rows train as PyTorch does under the masks that keep documents apart, wherever the boundaries are."""

import json
from pathlib import Path

import pytest

from harness import Config, rank_environments
from python_ranks import run_ranks

# Sums in another order.
TOLERANCE = 2e-5


def test_losses_are_those_of_masks(tmp_path: Path) -> None:
    script = Path(__file__).with_name("packed_script.py")
    printed = run_ranks(script, [tmp_path / "cache"], rank_environments(Config("", 1, 2)), timeout=300)
    losses, packed, crossing, plain, compiled = json.loads(printed[0].out.splitlines()[-1])
    assert losses == pytest.approx(packed, rel=TOLERANCE)
    # Boundaries make a difference that is seen.
    assert losses[0] != pytest.approx(crossing[0], rel=10 * TOLERANCE)
    assert compiled == pytest.approx(plain, rel=TOLERANCE)
