# SPDX-License-Identifier: Apache-2.0
"""The prober of GPUs on the emulated device, whose work takes times that are given: what it writes is what they say."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import BIN, ToolError, Workshop, environment, tool

PROGRAM = BIN / "fcdp-run-emulated"
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="fcdp is built without the CUDA backend, or with a libtorch for CUDA")

# Rates in operations and bytes per second, seconds, and bytes.
FLOPS = {"f64": 1e9, "f32": 2e9, "bf16": 4e9, "f16": 3e9}
MEMORY, LAUNCH = 5e9, 2e-5
H2D, D2H, COPY_START = 4e8, 3e8, 1e-5
NODE, NODE_START = 2e7, 4e-5
LOCAL, LOCAL_START = 1e8, 3e-5
DEVICE, CONTEXT, COMMUNICATOR = 256 << 20, 7_000_000, 3_000_000
SPEED: dict[str, float] = {
    **FLOPS,
    "memory": MEMORY,
    "launch": LAUNCH,
    "h2d": H2D,
    "d2h": D2H,
    "copy_start": COPY_START,
    "node": NODE,
    "node_start": NODE_START,
    "local": LOCAL,
    "local_start": LOCAL_START,
    "device": DEVICE,
    "context": CONTEXT,
    "communicator": COMMUNICATOR,
    # The first run of anything would be seen in every figure.
    "first": 0.7,
}


def with_numbers(value: Any) -> Any:
    """What PyYAML takes for text, as `5e+09`, is a number in YAML 1.2."""
    if isinstance(value, dict):
        return {key: with_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_numbers(item) for item in value]
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def fake(speed: dict[str, float]) -> dict[str, str]:
    return environment({"FCDP_FAKE_SPEED": ",".join(f"{key}={value:.17g}" for key, value in speed.items())})


def probe(path: Path, nodes: int, local: int) -> dict[str, Any]:
    mesh = (f"--nodes={nodes}", f"--ranks-per-node={local}")
    tool(PROGRAM, f"--probe-cluster={path}", "--target=cuda", *mesh, env=fake(SPEED), timeout=100)
    described: dict[str, Any] = with_numbers(yaml.safe_load(path.read_text()))
    return described


def bus_bandwidth(whole: float, ranks: int, rate: float, start: float, summed: bool) -> float:
    part = whole / ranks
    sent = (ranks - 1) * part
    # Each reduction ends with a kernel that reads all parts and writes one.
    return sent / (start + sent / rate + summed * (LAUNCH + (ranks + 1) * part / MEMORY))


def test_finds_what_the_device_was_given(workshop: Workshop, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    found = probe(path, 2, 2)
    device = found["device"]
    assert (device["memory"], device["compute_capability"], device["processors"]) == (DEVICE, 9.0, 132)
    # Two workspaces of 4 MiB, and four communicators: node and local, of gathers and reductions.
    assert device["reserved"] == {"context": CONTEXT, "communicators": 4 * COMMUNICATOR, "workspace": 8 << 20}
    for kind, rate in FLOPS.items():
        rows = [row for row in device["products"] if row["type"] == kind]
        assert len(rows) >= 2
        for row in rows:
            work = 2 * row["m"] * row["n"] * row["k"]
            moved = (row["m"] * row["k"] + row["k"] * row["n"] + row["m"] * row["n"]) * {"f64": 8, "f32": 4}.get(kind, 2)
            assert row["flops"] == pytest.approx(work / (LAUNCH + max(work / rate, moved / MEMORY)), rel=1e-3)
        assert device["flops"][kind] == max(row["flops"] for row in rows)
    # The smallest kernel accesses 48 bytes.
    assert device["launch_latency"] == pytest.approx(LAUNCH + 48 / MEMORY, rel=1e-3)
    assert device["memory_bandwidth"] == pytest.approx(MEMORY, rel=1e-3)
    assert all(share == pytest.approx(1, rel=1e-3) for _, share in device["memory_curve"])
    for name, bandwidth in (("h2d", H2D), ("d2h", D2H)):
        assert found[name]["bandwidth"] == pytest.approx(bandwidth, rel=1e-3)
        assert found[name]["latency"] == pytest.approx(COPY_START, rel=1e-2)
        assert found[name]["sharing"] == "rank"
    for name, bandwidth, start in (("inter", NODE, NODE_START), ("intra", LOCAL, LOCAL_START)):
        assert found[name]["bandwidth"] == pytest.approx(bandwidth, rel=1e-3)
        assert found[name]["latency"] == pytest.approx(start, rel=1e-2)
    for name, bandwidth, start in (("node", NODE, NODE_START), ("local", LOCAL, LOCAL_START)):
        for kind, rows in found["collectives"][name].items():
            assert len(rows) >= 4
            for whole, _, rate in rows:
                expected = bus_bandwidth(whole, 2, bandwidth, start, kind == "reduce_scatter")
                assert rate == pytest.approx(expected, rel=2e-3)
    assert min(found["host"]["issue"].values()) > 0
    assert 0 < device["collective_share"] < 0.5
    assert found["flat_collectives"] == "ring" and "codec" not in found
    assert path.read_text().splitlines()[1].startswith("# GPUs, on 2")
    assert " a step on probed" in tool(BIN / "fcdp-sim", workshop.model("gpt").archive, f"--cluster={path}")


def test_one_gpu(workshop: Workshop, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    found = probe(path, 1, 1)
    assert found["device"]["reserved"]["communicators"] == 0 and found["device"]["collective_share"] == 0
    assert "collectives" not in found
    tool(BIN / "fcdp-sim", workshop.model("gpt").archive, f"--cluster={path}")


def test_refuses_gpus_that_differ(tmp_path: Path) -> None:
    job = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29743", "GROUP_RANK": "0"}
    command = [str(PROGRAM), f"--probe-cluster={tmp_path / 'cluster.yaml'}", "--target=cuda"]
    ranks = []
    for rank in range(2):
        speed = SPEED | {"device": DEVICE + rank}
        own = fake(speed) | job | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        ranks.append(subprocess.Popen(command, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    printed = "".join(rank.communicate(timeout=60)[0] for rank in ranks)
    assert all(rank.returncode == 1 for rank in ranks), printed
    assert "expected the same GPU on all ranks; rank 0 has one of compute capability 9.0" in printed
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "options, message",
    [
        (["--probe-cluster=c.yaml", "--target=cuda"], "--target=cuda: this libtorch has no part for CUDA"),
        (["--target=cuda", "step.so"], "--target: expected --probe-cluster, too"),
    ],
)
def test_says_what_is_missing(options: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=f"error: {message}"):
        tool(BIN / "fcdp-run", *options)
