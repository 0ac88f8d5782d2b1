# SPDX-License-Identifier: Apache-2.0
"""fcdp.compile(autocast=torch.bfloat16) trains as PyTorch does under torch.autocast, on two ranks."""

import json
import sys
from pathlib import Path

from harness import Config, rank_environments, relative_error, started

SCRIPT = """
import json, sys
import torch
from torch import nn
import fcdp

def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1))

def batch(rank, step):
    data = torch.Generator().manual_seed(100 * rank + step)
    return torch.randn(8, 16, generator=data), torch.randn(8, 1, generator=data)

def eager(dtype):
    own = model()
    optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
    for step in range(5):
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype is not None):
            loss = sum(nn.functional.mse_loss(own(x), y) for x, y in (batch(0, step), batch(1, step))) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()

settings = {"loss_fn": nn.functional.mse_loss, "optimizer": "sgd,lr=0.1", "cache": sys.argv[1], "threads": 1}
settings |= {"eval_inputs": batch(0, 0)}
with fcdp.compile(model(), batch(0, 0), autocast=torch.bfloat16, **settings) as step:
    evaluated = step.evaluate([batch(step.rank, 0)]).item()
    losses = [step(*batch(step.rank, number)).item() for number in range(5)]
print(json.dumps([evaluated, losses, list(eager(torch.bfloat16)), list(eager(None))]))
"""


def test_losses_are_those_of_autocast(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command: list[str | Path] = [sys.executable, script, tmp_path / "cache"]
    with started([(command, variables) for variables in rank_environments(Config("", 1, 2))]) as ranks:
        printed = [process.communicate(timeout=200) for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0], printed
    evaluated, losses, half, full = json.loads(printed[0][0])
    assert relative_error(losses[:1], half[:1]) <= 1e-6 and evaluated == losses[0]
    assert relative_error(losses, half) <= 2e-3
    # Autocast makes a difference that is seen.
    assert relative_error(half[:1], full[:1]) > 1e-5
