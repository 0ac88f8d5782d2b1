# SPDX-License-Identifier: Apache-2.0
"""The prober of GPUs on the emulated device, whose work takes times that are given: what it writes is what they say."""

import os
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import BIN, Config, ToolError, Workshop, environment, free_port, rank_environment, tool

PROGRAM = BIN / "fcdp-run-emulated"
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="fcdp is built without the CUDA backend, or with a libtorch for CUDA")

# Rates in operations and bytes per second, seconds, and bytes.
FLOPS = {"f64": 1e9, "f32": 2e9, "bf16": 4e9, "f16": 3e9}
FORWARD, BACKWARD, MASKED, NARROW = 2e9, 1.5e9, 0.5, 0.8
MEMORY, LAUNCH = 5e9, 2e-5
H2D, D2H, HOST, COPY_START = 4e8, 3e8, 5e8, 1e-5
NODE, NODE_START = 2e7, 4e-5
LOCAL, LOCAL_START = 1e8, 3e-5
WORLD, WORLD_START = 3e7, 5e-5
DEVICE, CONTEXT, COMMUNICATOR = 128 << 20, 7_000_000, 3_000_000
# By rank: what is left of the rate of products when they have run for some time.
SUSTAINED = (0.9, 0.88, 0.92, 0.9)
SPEED: dict[str, float] = {
    **FLOPS,
    "attention": FORWARD,
    "attention_backward": BACKWARD,
    "masked": MASKED,
    "narrow": NARROW,
    # All other measures of products are over by then.
    "heat": 4,
    "memory": MEMORY,
    "launch": LAUNCH,
    "h2d": H2D,
    "d2h": D2H,
    "copy_start": COPY_START,
    "node": NODE,
    "node_start": NODE_START,
    "local": LOCAL,
    "local_start": LOCAL_START,
    "world": WORLD,
    "world_start": WORLD_START,
    "device": DEVICE,
    "context": CONTEXT,
    "communicator": COMMUNICATOR,
    # The first runs of anything would be seen in every figure.
    "first": 0.7,
    "firsts": 3,
}


def with_numbers(value: Any) -> Any:
    """Makes numbers of texts such as `5e+09`, which are numbers in YAML 1.2 and texts for PyYAML."""
    if isinstance(value, dict):
        return {key: with_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_numbers(item) for item in value]
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def fake_speed(speed: dict[str, float]) -> dict[str, str]:
    return {"FCDP_FAKE_SPEED": ",".join(f"{key}={value:.17g}" for key, value in speed.items())}


def probe(path: Path, nodes: int, local: int, speeds: Sequence[dict[str, float]]) -> dict[str, Any]:
    """The description that ranks with these GPUs write."""
    config, port = Config("", nodes, local), free_port()
    # Threads that wait for each other would take the cores from other tests.
    command = [str(PROGRAM), f"--probe-cluster={path}", "--target=cuda", "--threads=1"]
    ranks = []
    for rank in range(config.world):
        env = rank_environment(config, rank, port) | fake_speed(speeds[rank % len(speeds)])
        ranks.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    printed = [rank.communicate(timeout=100)[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise ToolError("\n".join(printed))
    described: dict[str, Any] = with_numbers(yaml.safe_load(path.read_text()))
    return described


def bus_bandwidth(whole: float, ranks: int, rate: float, start: float, summed: bool) -> float:
    part = whole / ranks
    sent = (ranks - 1) * part
    # Each reduction ends with a kernel that reads all parts and writes one.
    return sent / (start + sent / rate + summed * (LAUNCH + (ranks + 1) * part / MEMORY))


def test_finds_what_the_device_was_given(workshop: Workshop, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    found = probe(path, 2, 2, [SPEED | {"host": HOST, "sustained": share} for share in SUSTAINED])
    device = found["device"]
    assert (device["memory"], device["compute_capability"], device["processors"]) == (DEVICE, 9.0, 132)
    # Two workspaces of 4 MiB, and four communicators: node and local, of gathers and reductions.
    assert device["reserved"] == {"context": CONTEXT, "communicators": 4 * COMMUNICATOR, "workspace": 8 << 20}
    for kind, rate in FLOPS.items():
        rows = [row for row in device["products"] if row["type"] == kind]
        assert len(rows) >= 2
        for row in rows:
            m, n, k, batch = row["m"], row["n"], row["k"], row.get("batch", 1)
            work = batch * 2 * m * n * k
            moved = batch * (m * k + k * n + m * n) * {"f64": 8, "f32": 4}.get(kind, 2)
            assert row["flops"] == pytest.approx(work / max(work / rate, moved / MEMORY), rel=1e-3)
        assert device["flops"][kind] == max(row["flops"] for row in rows)
        # Squares, those with few rows, columns and summands, and batches.
        shapes = {(row.get("batch", 1), row["m"], row["n"], row["k"]) for row in rows}
        assert shapes >= {(1, 128, 128, 128), (1, 8, 128, 128), (1, 128, 8, 128), (1, 128, 128, 8), (16, 32, 32, 32)}
    attention = device["attention"]
    for name, rate in (("forward", FORWARD), ("backward", BACKWARD)):
        assert [keys for keys, _ in attention[name]] == [128, 256]
        assert all(share == pytest.approx(rate / FLOPS["bf16"], rel=5e-3) for _, share in attention[name])
    assert attention["masked"] == pytest.approx(MASKED, rel=5e-3)
    assert attention["narrow"] == pytest.approx(NARROW, rel=5e-3)
    # Seconds of the ranks under load, relative to those of a single product.
    seconds = [1 / share for share in SUSTAINED]
    assert device["sustained"] == pytest.approx(1 / statistics.mean(seconds), rel=2e-3)
    assert device["variation"] == pytest.approx(statistics.stdev(seconds) / statistics.mean(seconds), rel=2e-2)
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
    groups = (
        ("node", 2, 2, NODE, NODE_START),
        ("local", 1, 2, LOCAL, LOCAL_START),
        ("world", 2, 4, WORLD, WORLD_START),
    )
    assert found["collectives"].keys() == {name for name, *_ in groups}
    for name, nodes, ranks, bandwidth, start in groups:
        for kind, rows in found["collectives"][name].items():
            assert len(rows) >= 4
            for whole, on, rate in rows:
                expected = bus_bandwidth(whole, ranks, bandwidth, start, kind == "reduce_scatter")
                assert on == nodes
                assert rate == pytest.approx(expected, rel=2e-3)
    # The values are of a node of two ranks.
    assert found["host"]["memory_bandwidth"] == pytest.approx(2 * HOST, rel=1e-3)
    assert set(found["host"]["issue"]) == {"operator", "view", "transfer", "copy"}
    assert min(found["host"]["issue"].values()) > 0
    assert 0 < device["collective_share"] < 0.5
    assert found["flat_collectives"] == "ring" and "codec" not in found
    assert path.read_text().splitlines()[1].startswith("# GPUs, on 2")
    assert " a step on probed" in tool(BIN / "fcdp-sim", workshop.model("gpt").archive, f"--cluster={path}")


def test_one_old_gpu(workshop: Workshop, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    # No products in bf16, and no attention in f16 either.
    lacking = {"bf16": -1, "f16": 5e8, "attention_f16": -1, "attention": 5e8}
    found = probe(path, 1, 1, [SPEED | lacking])
    device = found["device"]
    assert device["reserved"]["communicators"] == 0 and device["collective_share"] == 0
    assert "collectives" not in found
    # Types that a GPU does not have are not in the file, and a comment in it says so.
    assert {row["type"] for row in device["products"]} == {"f64", "f32", "f16"}
    assert device["flops"]["bf16"] == device["flops"]["f32"]
    text = path.read_text()
    why = "assumed as f32: not measured, as this GPU has no such products: CUDA error: CUBLAS_STATUS_NOT_SUPPORTED"
    assert text.count(why) == 1 and "the second line" not in text
    assert "  attention: # causal, heads of 128, in f32\n" in text
    assert device["attention"]["forward"] == [[128, pytest.approx(5e8 / FLOPS["f32"], rel=5e-3)]]
    assert "  # memory_bandwidth does not limit copies in both directions at once\n" in text
    assert "  # variation is not measured: there are too few ranks\n" in text
    tool(BIN / "fcdp-sim", workshop.model("gpt").archive, f"--cluster={path}")


def test_refuses_gpus_that_differ(tmp_path: Path) -> None:
    job = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29743", "GROUP_RANK": "0"}
    command = [str(PROGRAM), f"--probe-cluster={tmp_path / 'cluster.yaml'}", "--target=cuda"]
    ranks = []
    for rank in range(2):
        speed = SPEED | {"device": DEVICE + rank}
        own = environment() | fake_speed(speed) | job | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
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
