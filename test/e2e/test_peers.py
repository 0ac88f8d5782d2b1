# SPDX-License-Identifier: Apache-2.0
"""benchmarks/peers: fcdp, FSDP2 and DDP train a small model on two hosts, and what they send is counted."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from closed_forms import buckets, traffic
from harness import ROOT, environment, read_plan

sys.path.insert(0, str(ROOT / "benchmarks" / "netns"))

from hosts import why_impossible  # noqa: E402

SETTING = "tiny-f32-k1-unlimited"
STEPS = 2
# The kernel counts the payload, headers, acknowledgements and heartbeats. A step of this model sends 0.4 MB.
HEADERS, CONTROL = 1.10, 20_000

# One process makes hosts at a time.
pytestmark = [
    pytest.mark.skipif(bool(why_impossible()), reason=str(why_impossible())),
    pytest.mark.xdist_group("hosts"),
]


def peers(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "benchmarks/peers/run.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("peers")
    rows = ["--peers", "fsdp2-full", "ddp", "--models", "tiny", "--megabits", "none"]
    done = peers(*rows, f"--steps={STEPS}", "--rounds=1", f"--folder={out}", "--timeout=240")
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def read(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "results.json").read_text())


def sent_in_a_step(results: dict[str, Any], row: str) -> list[int]:
    """Bytes that each node sent after the first step, by the kernel."""
    first = results["models"][SETTING.removesuffix("-unlimited")]["tried"][row]["run"]
    (run,) = results["runs"][SETTING][row]
    assert (first["steps"], run["steps"]) == (1, STEPS)
    return [count - start for count, start in zip(run["sent"], first["sent"], strict=True)]


def test_bytes(folder: Path) -> None:
    results = read(folder)
    plan = read_plan(folder / "tiny-f32-k1" / "fcdp.so")
    uses = {bucket.unit: 1 for bucket in buckets(plan)}
    expected = traffic(plan, "fcdp", uses)[1].inter
    gathered = sum(bucket.gather_bytes for bucket in buckets(plan))
    # On two nodes: half of what is gathered, and half of what is reduced.
    assert expected == gathered
    (run,) = results["runs"][SETTING]["fcdp"]
    assert run["counted"] == results["models"]["tiny-f32-k1"]["tried"]["fcdp"]["planned"] == expected
    for sent in sent_in_a_step(results, "fcdp"):
        assert expected - CONTROL <= sent <= expected * HEADERS + CONTROL
    # Each reduces all gradients over the nodes. FSDP2 also gathers all parameters twice.
    whole = 4 * results["models"]["tiny-f32-k1"]["parameters"]
    for sent in sent_in_a_step(results, "ddp"):
        assert whole - CONTROL <= sent <= 2 * whole * HEADERS + CONTROL
    for sent in sent_in_a_step(results, "fsdp2-full"):
        assert 1.5 * whole <= sent <= 4 * whole * HEADERS + CONTROL


def test_losses_are_equal(folder: Path) -> None:
    runs = read(folder)["runs"][SETTING]
    expected = runs["fcdp"][0]["losses"]
    assert len(expected) == STEPS and expected[0] != expected[1]
    for row in ("fsdp2-full", "ddp"):
        assert runs[row][0]["losses"] == pytest.approx(expected, rel=1e-6)
        assert min(runs[row][0]["peak"], runs["fcdp"][0]["peak"]) > 50_000_000


@pytest.fixture
def changed(folder: Path, tmp_path: Path) -> Path:
    """A copy of the results, with a page to write tables into."""
    shutil.copy(folder / "results.json", tmp_path)
    begin, end = (f"<!-- benchmarks/peers/run.py {word} here -->" for word in ("begins", "ends"))
    (tmp_path / "page.md").write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    return tmp_path


def test_the_page(changed: Path) -> None:
    done = peers("--rounds=0", f"--folder={changed}", f"--document={changed / 'page.md'}", "--no-pictures")
    assert done.returncode == 0, done.stderr
    page = (changed / "page.md").read_text()
    assert page.startswith("before\n") and page.endswith("\nafter\n") and "old" not in page
    assert [row in page for row in ("| fcdp |", "| FSDP2, full shard |", "| DDP |")] == [True] * 3


def test_a_row_that_trains_something_else(changed: Path) -> None:
    results = read(changed)
    results["runs"][SETTING]["ddp"][0]["losses"][1] *= 1.001
    (changed / "results.json").write_text(json.dumps(results))
    done = peers("--rounds=0", f"--folder={changed}", f"--document={changed / 'page.md'}", "--no-pictures")
    assert done.returncode == 1
    assert f"{SETTING}: ddp: a loss differs from fcdp's by 1.0e-03 of it, expected at most 1e-05" in done.stderr
    assert "| DDP |" not in (changed / "page.md").read_text()


def test_bytes_that_were_not_planned(changed: Path) -> None:
    results = read(changed)
    results["runs"][SETTING]["fcdp"][0]["counted"] += 4
    (changed / "results.json").write_text(json.dumps(results))
    done = peers("--rounds=0", f"--folder={changed}")
    assert done.returncode == 1 and "fcdp: sent" in done.stderr and "planned" in done.stderr
