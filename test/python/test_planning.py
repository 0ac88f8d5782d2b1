# SPDX-License-Identifier: Apache-2.0
"""How a step is planned by what its user gives."""

import json
from pathlib import Path

import pytest
from torch import nn

from fcdp.loop import cluster as cluster_module
from fcdp.loop import planning as planning_module
from fcdp.loop.cluster import ProbeRequest, measured_cluster
from fcdp.loop.job import Job, Launch
from fcdp.loop.planning import AUTO, Planning, plan_for

MEASURED = Planning(AUTO, "measured.yaml", "of the machines as measured on another day, kept in measured.yaml", True)


class ManyRanks(Job):
    """Rank 0 of a job whose other ranks have what it has."""

    def __init__(self, ranks: int):
        super().__init__(Launch(1, 1, 0, 0, 0, "127.0.0.1", 0, True, 0, "a"), 0)
        self.launch = Launch(1, ranks, 0, 0, 0, "127.0.0.1", 0, True, 0, "a")


def plan(ranks: int = 2, **given: object) -> Planning:
    arguments = {"strategy": None, "cluster": None, "options": [], "cache": Path(), "threads": None, "network_interface": ""}
    return plan_for(ManyRanks(ranks), nn.Linear(1, 1), **{**arguments, **given})


@pytest.fixture(autouse=True)
def measures(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FCDP_STRATEGY", "FCDP_CLUSTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(planning_module, "measured_cluster", lambda job, cache, request: Path("measured.yaml"))


def test_measures_unless_there_is_nothing_to_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan() == plan(strategy=AUTO) == MEASURED
    assert MEASURED.options == ["--strategy=auto", "--cluster=measured.yaml"]
    assert plan(ranks=1).options == ["--strategy=fcdp"]
    assert plan(options=["--outer=16"]).options == ["--strategy=hsdp"]
    monkeypatch.setattr(planning_module, "measured_cluster", lambda job, cache, request: None)
    assert plan().options == ["--strategy=fcdp"]


def test_does_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan(strategy="zero3").options == ["--strategy=zero3"]
    assert plan(options=["--strategy=hpz"]).options == ["--strategy=hpz"]
    assert plan(cluster="h100").options == ["--strategy=auto", "--cluster=h100"]
    assert plan(strategy="zero3", cluster="h100").options == ["--strategy=zero3", "--cluster=h100"]
    assert plan(options=["--cluster=h100"]).options == ["--strategy=auto"]
    monkeypatch.setenv("FCDP_STRATEGY", "hsdp")
    assert plan().options == ["--strategy=hsdp"] and plan(strategy="zero3").options == ["--strategy=zero3"]
    monkeypatch.setenv("FCDP_STRATEGY", "")
    monkeypatch.setenv("FCDP_CLUSTER", "a40-rdma")
    assert plan().options == ["--strategy=auto", "--cluster=a40-rdma"] and plan().is_measured is False


def test_a_failed_measurement_is_said_and_none_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "_probe", lambda *arguments: "rank 1 is gone")
    request = ProbeRequest(False, None, "")
    with pytest.warns(RuntimeWarning, match=r"could not be measured \(rank 1 is gone\): the strategy is 'fcdp'"):
        assert measured_cluster(ManyRanks(2), tmp_path, request) is None
    assert not list((tmp_path / "clusters").iterdir())


def test_what_is_kept_is_for_the_same_hardware(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job with other processors, interfaces or threads is measured by itself."""
    written: list[Path] = []

    def probe(job: Job, request: ProbeRequest, path: Path, host: str, port: int) -> str:
        assert host == "127.0.0.1" and 0 < port < 1 << 16
        path.write_text("name: probed")
        written.append(path)
        return ""

    monkeypatch.setattr(cluster_module, "_probe", probe)

    def find(threads: int | None = None, processor: str = "a") -> Path | None:
        monkeypatch.setattr(cluster_module, "_processor", lambda: processor)
        return measured_cluster(ManyRanks(2), tmp_path, ProbeRequest(False, threads, ""))

    first = find()
    assert first == find() and len(written) == 1
    assert len({first, find(threads=2), find(processor="b")}) == 3 and len(written) == 3


def test_a_probe_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fcdp-run is started with the variables of this rank, and its last line is the reason."""
    tool, seen = tmp_path / "fcdp-run", tmp_path / "seen.json"
    tool.write_text(
        "#!/usr/bin/env python3\nimport json, os, sys\n"
        f"json.dump([sys.argv[1:], dict(os.environ)], open({str(seen)!r}, 'w'))\n"
        "sys.exit('warning: slow\\nerror: no link')\n"
    )
    tool.chmod(0o755)
    monkeypatch.setattr(cluster_module, "find_install", lambda: type("Install", (), {"compiler": tmp_path / "fcdp-compile"}))
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    request = ProbeRequest(True, 3, "eth1")
    assert cluster_module._probe(ManyRanks(2), request, tmp_path / "c.yaml", "127.0.0.1", 4242) == "no link"
    options, variables = json.loads(seen.read_text())
    assert options == [f"--probe-cluster={tmp_path / 'c.yaml'}", "--target=cuda", "--threads=3", "--interface=eth1"]
    assert variables["WORLD_SIZE"] == "2" and variables["MASTER_PORT"] == "4242" and variables["TORCHELASTIC_RUN_ID"] == "a"
    assert "TORCHELASTIC_USE_AGENT_STORE" not in variables
