# SPDX-License-Identifier: Apache-2.0
"""Presets that build on others: what benchmarks read of them is what fcdp-sim reads."""

import json
import sys
from pathlib import Path

import pytest
import yaml

from harness import BIN, ROOT, tool

sys.path.insert(0, str(ROOT / "benchmarks" / "simulator"))

from presets import CLUSTERS, merge, read_preset  # noqa: E402

STEP = ROOT / "test/lit/tools/fcdp-sim/Inputs/step.mlir"
BUILT_ON = sorted(path.stem for path in CLUSTERS.glob("*.yaml") if "base" in yaml.safe_load(path.read_text()))


def simulate(cluster: str | Path) -> dict[str, object]:
    text = tool(BIN / "fcdp-sim", STEP, f"--cluster={cluster}", "--nodes=2", "--strategy=zero3", "--json")
    simulated: dict[str, object] = json.loads(text)
    return simulated


@pytest.mark.parametrize("name", BUILT_ON)
def test_a_preset_is_its_base_and_what_differs(name: str, tmp_path: Path) -> None:
    path = tmp_path / "whole.yaml"
    path.write_text(yaml.dump(read_preset(name)))
    assert "base" not in read_preset(name)
    assert simulate(path) == simulate(name)


def test_lists_and_switches_are_replaced() -> None:
    base = {"products": [1, 2], "link": {"latency": 1, "sharing": "switch", "ranks_per_switch": 2}}
    own = {"products": [3], "link": {"sharing": "rank"}}
    assert merge(base, own) == {"products": [3], "link": {"latency": 1, "sharing": "rank"}}
    assert merge(base, {"link": {"latency": 2}})["link"] == {"latency": 2, "sharing": "switch", "ranks_per_switch": 2}
