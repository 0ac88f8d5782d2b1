# SPDX-License-Identifier: Apache-2.0
"""Recomputation and copies to host memory in one problem: the joint choice is as fast as either alone, and fits where
either fits."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SIM = ROOT / "build/bin/fcdp-sim"
INPUTS = ROOT / "test/lit/Transforms/Inputs"

pytestmark = pytest.mark.skipif(not SIM.exists(), reason="fcdp-sim is not built")

# A generator of steps with its arguments.
MODELS = {"layers": ("layers.py", 6, 512, 256), "narrow": ("layers.py", 4, 1024, 64), "products": ("products.py", 6, 256)}
ALONE = ("remat=auto", "activations=auto", "states=auto")


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("steps")
    made = {}
    for name, (script, *numbers) in MODELS.items():
        made[name] = folder / f"{name}.mlir"
        command = [sys.executable, str(INPUTS / script), *map(str, numbers)]
        made[name].write_text(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return made


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Machines that differ in the bandwidth of copies to host memory."""
    folder = tmp_path_factory.mktemp("clusters")
    text = (ROOT / "cluster/cpu.yaml").read_text()
    made = {}
    for name, bandwidth in {"slow": "2e8", "fast": "5e10"}.items():
        made[name] = folder / f"{name}.yaml"
        made[name].write_text(re.sub(r"3\.5e9.*", bandwidth, text))
    return made


def plan(step: Path, cluster: Path, memory: int, *settings: str) -> dict[str, dict[str, object]]:
    """The points of --fit by setting."""
    command = [str(SIM), str(step), f"--cluster={cluster}", "--nodes=1", "--ranks-per-node=2", "--strategy=zero3"]
    command += [f"--device-memory={memory}", f"--fit={','.join(settings)}", "--json"]
    points = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["sweep"]["points"]
    return {point["options"]: point for point in points}


@pytest.mark.parametrize("speed", ["slow", "fast"])
@pytest.mark.parametrize("model", MODELS)
def test_joint_choice_is_as_good_as_each_alone(
    steps: dict[str, Path], clusters: dict[str, Path], model: str, speed: str
) -> None:
    most = plan(steps[model], clusters[speed], 10**12, "none")["none"]["device_bytes"]
    both, all_three = "+".join(ALONE[:2]), "+".join(ALONE)
    fitted = 0
    for share in (0.85, 0.65):
        points = plan(steps[model], clusters[speed], int(most * share), *ALONE, both, all_three)
        for joint, parts in ((both, ALONE[:2]), (all_three, ALONE)):
            fitting = [points[part]["seconds"] for part in parts if points[part].get("fits")]
            fitted += bool(fitting)
            assert points[joint].get("fits", False) >= bool(fitting)
            if fitting:
                assert points[joint]["seconds"] <= min(fitting) * 1.001
    assert fitted > 0
