# SPDX-License-Identifier: Apache-2.0
"""The compiler reads a probed cluster. Measured times are in benchmarks, and decide no test."""

import os
import sys
from pathlib import Path

import pytest
import yaml

from harness import BIN, ROOT, ToolError, Workshop, environment, tool

sys.path.insert(0, str(ROOT / "benchmarks" / "netns"))

from hosts import why_impossible  # noqa: E402
from run import run  # noqa: E402

TORCHRUN = ROOT / ".venv" / "bin" / "torchrun"


def check(workshop: Workshop, path: Path, nodes: int, local: int) -> dict:
    """The description, once the compiler has planned by it."""
    described = yaml.safe_load(path.read_text())
    assert (described["nodes"], described["ranks_per_node"]) == (nodes, local)
    for link in ("inter", "intra", "h2d", "d2h"):
        # Measured times decide between the two.
        assert described[link]["sharing"] in (("rank",) if local == 1 or link == "intra" else ("rank", "node"))
    tables = described.get("collectives", {})
    ranks = {name: count for name, count in (("node", nodes), ("local", local)) if count > 1}
    assert tables.keys() == ranks.keys()
    for name, kinds in tables.items():
        assert kinds.keys() == {"all_gather", "reduce_scatter"}
        for rows in kinds.values():
            # Long messages are in the tables even if a link lets bursts through.
            assert rows[-1][0] <= ranks[name] << 22
            assert all(row[0] % ranks[name] == 0 and row[1] == (nodes if name == "node" else 1) and float(row[2]) > 0 for row in rows)
    text = tool(BIN / "fcdp-sim", workshop.model("gpt").archive, f"--cluster={path}")
    assert " a step on probed" in text
    assert not path.with_name(path.name + ".tmp").exists()
    return described


@pytest.mark.parametrize("nodes, local", [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_describes_any_mesh(workshop: Workshop, tmp_path: Path, nodes: int, local: int) -> None:
    path = tmp_path / "cluster.yaml"
    # Both programs do the same.
    is_own = (nodes, local) == (1, 2)
    command = [BIN / "fcdp-probe", path] if is_own else [BIN / "fcdp-run", f"--probe-cluster={path}"]
    printed = tool(*command, f"--nodes={nodes}", f"--ranks-per-node={local}")
    assert printed.startswith(f"# Measured by {'fcdp-probe' if is_own else 'fcdp-run --probe-cluster'}, with all ranks")
    check(workshop, path, nodes, local)
    assert path.read_text() in printed
    assert ("not measured: there is one node" in printed) == (nodes == 1)
    assert ("not measured: a node has one rank" in printed) == (local == 1)


def test_under_another_launcher(workshop: Workshop, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    command = [TORCHRUN, "--no-python", "--standalone", "--nproc-per-node=2", BIN / "fcdp-run", f"--probe-cluster={path}"]
    tool(*command, env=environment({"OMP_NUM_THREADS": "1"}))
    check(workshop, path, 1, 2)


@pytest.mark.skipif(bool(why_impossible()), reason=str(why_impossible()))
@pytest.mark.xdist_group("hosts")
def test_between_hosts(workshop: Workshop, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    sent, _ = run([str(BIN / "fcdp-run"), f"--probe-cluster={path}"], 2, 2, megabits=200, timeout=120)
    check(workshop, path, 2, 2)
    assert min(sent) > 1 << 20


@pytest.mark.parametrize(
    "options, message",
    [
        (["--probe-cluster=c.yaml", "step.so", "--weights=w.pt2"], "--probe-cluster: expected neither a step nor an output file"),
        (["--probe-cluster=c.yaml", "--json=log.jsonl"], "--probe-cluster: expected neither a step nor an output file"),
        (["--probe-cluster=absent/c.yaml"], "--probe-cluster absent/c.yaml: cannot write to "),
        (["--probe-cluster=absent/c.yaml", "--nodes=2"], "--probe-cluster absent/c.yaml: cannot write to "),
    ],
)
def test_refuses(options: list[str], message: str) -> None:
    with pytest.raises(ToolError, match=f"error: {message}"):
        tool(BIN / "fcdp-run", *options)


@pytest.mark.parametrize(
    "options, message",
    [
        ([], "FILE is required; see fcdp-probe --help"),
        (["c.yaml", "--rank-per-node=2"], r"unknown option '--rank-per-node=2'; did you mean '--ranks-per-node=2'\?; see fcdp-probe --help"),
        (["absent/c.yaml", "--nodes=2"], "probe absent/c.yaml: cannot write to "),
    ],
)
def test_program_refuses(options: list[str], message: str) -> None:
    with pytest.raises(ToolError, match=f"fcdp-probe: error: {message}"):
        tool(BIN / "fcdp-probe", *options)


def test_leaves_what_was_there_if_a_rank_does_not_come(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("old")
    lonely = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    with pytest.raises(ToolError, match="error: "):
        tool(BIN / "fcdp-run", f"--probe-cluster={path}", "--timeout=2", env=environment({**lonely, "MASTER_PORT": "29741"}))
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["cluster.yaml"]
