# SPDX-License-Identifier: Apache-2.0
"""States as DTensors: torch.distributed.checkpoint carries them between compiled steps, and to FSDP2 and back."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from harness import Config, environment, rank_environments
from python_ranks import run_ranks

SCRIPT = Path(__file__).with_name("sharded_script.py")


def run(ranks: int, folder: Path, *jobs: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs jobs one after the other in the same processes."""
    for job in jobs:
        job["options"] = {"cache": str(folder / "cache"), **job.get("options", {})}
    # More than two ranks are those of two nodes.
    config = Config("", ranks // 2, 2) if ranks % 2 == 0 else Config("", 1, ranks)
    run_ranks(SCRIPT, [json.dumps(jobs), folder / "out.pt"], rank_environments(config), timeout=400)
    return torch.load(folder / "out.pt")


def assert_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found["model"].keys() == expected["model"].keys()
    for name, value in expected["model"].items():
        assert torch.equal(found["model"][name], value), name
    assert found["optim"].keys() == expected["optim"].keys()
    for name, states in expected["optim"].items():
        assert found["optim"][name].keys() == states.keys()
        for key, value in states.items():
            assert torch.equal(torch.as_tensor(found["optim"][name][key]), torch.as_tensor(value)), (name, key)


def test_to_fsdp_and_back(tmp_path: Path) -> None:
    """From four ranks to two, and to three. Each trains on as the others would."""
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    (whole,) = run(4, tmp_path, {"kind": "fcdp", "steps": 2, "save": first, "more": 3})
    (fsdp,) = run(2, tmp_path, {"kind": "fsdp", "load": first, "steps": 2, "save": second})
    assert_equal(fsdp["loaded"], whole["saved"])
    (back,) = run(3, tmp_path, {"kind": "fcdp", "load": second, "steps": 1, "options": {"strategy": "zero3"}})
    assert_equal(back["loaded"], fsdp["saved"])
    assert fsdp["losses"] + back["losses"] == pytest.approx(whole["losses"][2:], rel=1e-5)
    assert len(set(whole["losses"])) == 5


@pytest.mark.parametrize("optimizer", ["adamw,lr=0.05", "adamw8bit,lr=0.05", "adafactor,lr=0.05"])
def test_between_strategies(tmp_path: Path, optimizer: str) -> None:
    """Also to ranks that keep copies of the same shard, for a parameter without dimensions, for masters in float32, for
    moments in 8 bits, which have a scale for each block, and for Adafactor's, which not all parameters have."""
    more = {"options": ["--master=f32"], "optimizer": optimizer}
    size = {"half": True, "width": 1024 if "8bit" in optimizer else 10}
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    replicated, sharded = {"strategy": "hsdp", **more}, {"strategy": "zero3", **more}
    whole, there, back = run(
        4,
        tmp_path,
        {"kind": "fcdp", **size, "options": replicated, "steps": 2, "save": first, "more": 1},
        {"kind": "fcdp", **size, "options": sharded, "load": first, "save": second},
        {"kind": "fcdp", **size, "options": replicated, "load": second, "steps": 1},
    )
    assert_equal(there["loaded"], whole["saved"])
    assert_equal(back["loaded"], whole["saved"])
    assert back["losses"] == whole["losses"][2:]
    assert_equal(back["last"], whole["last"])


def test_states_that_do_not_fit(tmp_path: Path) -> None:
    """All ranks have one error, also where the elements of this rank are as many as they should be."""
    (errors,) = run(2, tmp_path, {"kind": "misfits"})
    expected = {
        "turned": "these differ: layers.0.weight (expected float32 [10, 6], got float32 [6, 10])",
        "flat": "these differ: layers.0.weight (expected float32 [10, 6], got float32 [60])",
        "short": "these differ: layers.0.weight (expected float32 [10, 6], got float32 [9, 6])",
        "missing on one rank": "they lack layers.0.weight",
        "whole on one rank": "rank 1 has other values than rank 0",
        "a moment": "exp_avg_sq of layers.0.weight (expected float32 [10, 6], got float32 [6, 10])",
        "counts": " updates, and their bucket has one count",
    }
    assert errors.keys() == expected.keys()
    for name, found in errors.items():
        assert found[0] == found[1] and found[0].startswith("misuse: ") and expected[name] in found[0], (name, found)


def test_without_a_process_group(tmp_path: Path) -> None:
    script = tmp_path / "alone.py"
    script.write_text(
        "import sys, torch, fcdp\n"
        "model = torch.nn.Linear(2, 1)\n"
        "example = (torch.zeros(1, 2), torch.zeros(1, 1))\n"
        "step = fcdp.compile(model, example, loss_fn=torch.nn.functional.mse_loss, cache=sys.argv[1])\n"
        "try:\n    step.state_dict(sharded=True)\n"
        "except fcdp.StepError as error:\n    print(f'{error.code}: {error}')\n"
    )
    (rank,) = run_ranks(script, [tmp_path / "cache"], [environment()])
    assert rank.out.startswith("misuse: sharded: expected torch.distributed.init_process_group"), rank
