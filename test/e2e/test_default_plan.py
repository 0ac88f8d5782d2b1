# SPDX-License-Identifier: Apache-2.0
"""fcdp.compile without a strategy: the first start measures the machines, and a profile of its steps serves the next one."""

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
with fcdp.compile(model, (x, x), loss_fn=nn.functional.mse_loss, optimizer="sgd,lr=0.1", cache=sys.argv[1], profile=sys.argv[2]) as step:
    losses = [float(step(x, x)) for _ in range(8)]
if step.rank == 0:
    print("losses", losses)
"""


def run(script: Path, cache: Path, profile: Path) -> tuple[list[float], str]:
    """Returns the losses, and what was printed on standard error, which torchrun's ranks share with it."""
    env = environment({"FCDP_STRATEGY": ""})
    shell = ["bash", "-c", '"$@" 2>&1', "run"]
    printed = tool(*shell, TORCHRUN, "--standalone", "--nproc-per-node=2", script, cache, profile, env=env)
    return json.loads(re.search(r"^losses (.*)$", printed, re.M)[1]), printed


def test_measures_once_and_plans_by_a_profile(tmp_path: Path) -> None:
    script, cache, profile = tmp_path / "job.py", tmp_path / "cache", tmp_path / "profile.json"
    script.write_text(SCRIPT)
    losses, printed = run(script, cache, profile)
    [described] = (cache / "clusters").iterdir()
    assert "fcdp: measuring the machines and links of this job, once (1 x 2 ranks)" in printed
    choice = rf"fcdp: strategy auto: \S+ s a step, .*, by a prediction of the machines as .* kept in {described}"
    assert re.search(choice, printed)
    assert re.search(r"fcdp: zero3 would take \S+ s, send 0 MiB from each node, .*: auto saves \d+% of the time", printed)
    assert "compute_efficiency: 1" in described.read_text()
    measured = json.loads(profile.read_text())
    assert measured["steps"] == 5 and any("aten.addmm.default" in entry["operator"] for entry in measured["operators"])

    first = set(cache.glob("*.so"))
    again, printed = run(script, cache, profile)
    assert again == losses
    assert "measuring the machines" not in printed and re.search(choice, printed)
    assert len(first) == 1 and len(set(cache.glob("*.so"))) == 2, "the second start plans with the profile"
    assert json.loads(profile.read_text()) == measured
