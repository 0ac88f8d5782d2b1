# SPDX-License-Identifier: Apache-2.0
"""fcdp.compile without a strategy: the first start measures the machines, and times of its steps serve later ones."""

import json
import re
from pathlib import Path

from harness import ROOT, environment, tool

TORCHRUN = ROOT / ".venv" / "bin" / "torchrun"
SCRIPT = """
import sys
import torch
from torch import nn
import fcdp

torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)))
x = torch.randn(8, 64, generator=torch.Generator().manual_seed(1))
with fcdp.compile(model, (x, x), loss_fn=nn.functional.mse_loss, optimizer="sgd,lr=0.1", cache=sys.argv[1], profile=sys.argv[2] or None) as step:
    losses = [float(step(x, x)) for _ in range(10)]
if step.rank == 0:
    print("losses", losses)
"""


def run(script: Path, cache: Path, profile: Path | str = "") -> tuple[list[float], str]:
    """Returns the losses, and what was printed on standard error, which torchrun's ranks share with it."""
    env = environment({"FCDP_STRATEGY": ""})
    shell = ["bash", "-c", '"$@" 2>&1', "run"]
    printed = tool(*shell, TORCHRUN, "--standalone", "--nproc-per-node=2", script, cache, profile, env=env)
    return json.loads(re.search(r"^losses (.*)$", printed, re.M)[1]), printed


def test_measures_once_and_plans_by_times_of_earlier_jobs(tmp_path: Path) -> None:
    script, cache = tmp_path / "job.py", tmp_path / "cache"
    script.write_text(SCRIPT)
    losses, printed = run(script, cache)
    [described] = (cache / "clusters").iterdir()
    assert "fcdp: measuring the machines and links of this job, once (1 x 2 ranks)" in printed
    choice = rf"fcdp: strategy auto: \S+ s a step, .*, by a prediction of the machines as .* kept in {described}"
    assert re.search(choice + "\n", printed)
    assert re.search(r"fcdp: zero3 would take \S+ s, send 0 MiB from each node, .*: auto saves \d+% of the time", printed)
    assert "compute_efficiency: 1" in described.read_text()
    [history] = (cache / "history").iterdir()
    measured = json.loads((history / "profile.json").read_text())
    assert measured["steps"] == 5 and any("aten.addmm.default" in entry["operator"] for entry in measured["operators"])
    [first] = cache.glob("*.so")
    assert first.stem == history.name and list(json.loads((history / "seconds.json").read_text())) == [first.name]

    by_times = f"{choice}, with the times of an earlier job's operations\n"
    again, printed = run(script, cache, history / "profile.json")
    assert again == losses
    assert "measuring the machines" not in printed and re.search(by_times, printed)
    [later] = set(cache.glob("*.so")) - {first}

    (history / "seconds.json").write_text(json.dumps({first.name: 1.0, later.name: 0.5}))
    again, printed = run(script, cache)
    assert again == losses and re.search(by_times, printed)
    assert set(cache.glob("*.so")) == {first, later}
    assert json.loads((history / "profile.json").read_text()) == measured
