# SPDX-License-Identifier: Apache-2.0
"""A measured profile: what it has of a run, and that the compiler finds all of it again."""

import json
from pathlib import Path

import pytest

from harness import BIN, Config, ToolError, Workshop, read_plan, read_log, run_command, tool

STEPS = 4
CONFIG = Config("gpt_bf16", micro_batches=2, clip_norm=1.0)


@pytest.fixture(scope="module")
def profile(workshop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("profile") / "profile.json"
    execute(workshop, CONFIG, f"--profile={path}")
    return path


def execute(workshop: Workshop, config: Config, *extra: str, steps: int = STEPS) -> None:
    model = workshop.model(config.model)
    mesh = (f"--nodes={config.nodes}", f"--ranks-per-node={config.local}")
    tool(*run_command(workshop.step(config), model.archive, model.inputs, steps, *mesh, *extra))


def simulate(workshop: Workshop, profile: Path, *options: str) -> list[dict]:
    """The spans of a step that fcdp-sim predicts from the profile."""
    out = profile.with_suffix(".trace")
    command = [BIN / "fcdp-sim", workshop.model(CONFIG.model).archive, "--cluster=cpu", f"--profile={profile}"]
    tool(*command, f"--trace={out}", *options)
    return [event for event in json.loads(out.read_text())["traceEvents"] if event["ph"] == "X"]


def test_holds_all_that_ran(workshop: Workshop, profile: Path) -> None:
    measured, plan = json.loads(profile.read_text()), read_plan(workshop.step(CONFIG))
    assert (measured["version"], measured["nodes"], measured["ranks_per_node"]) == (1, 2, 2)
    assert measured["steps"] == STEPS - 1
    entries = measured["operators"] + measured["operations"]
    assert all(entry["calls"] >= 1 and entry["seconds"] >= 0 for entry in entries)
    assert sum(entry["seconds"] for entry in entries) > 0
    kinds = {op["kind"] for op in plan["ops"]} - {"aten_call", "record", "wait", "loss", "write_buffer"}
    assert {entry["kind"] for entry in measured["operations"]} == kinds
    axes = {(op["kind"], op["axis"]) for op in plan["ops"] if "axis" in op}
    assert {(entry["kind"], entry["axis"]) for entry in measured["operations"] if "axis" in entry} <= axes
    names = {op["callee"].replace("::", ".") for op in plan["ops"] if op["kind"] == "aten_call"}
    assert {entry["operator"].split("(")[0].rsplit(".", 1)[0] for entry in measured["operators"]} == names


@pytest.mark.parametrize("strategy", ["fcdp", "zero3", "hpz"])
def test_predicts_each_operator_as_measured(workshop: Workshop, profile: Path, strategy: str) -> None:
    """Whatever the strategy; so the compiler and the runtime give all operators the same keys."""
    measured = json.loads(profile.read_text())
    spans = simulate(workshop, profile, f"--strategy={strategy}", "--micro-batches=2", "--clip-norm=1.0")
    took: dict[str, set[float]] = {}
    for entry in measured["operators"]:
        took.setdefault(entry["operator"].split("(")[0], set()).add(entry["seconds"])
    # Sums on other streams run beside compute and slow it down.
    sums = [span for span in spans if span["name"].startswith("accumulate") and span["tid"] != 0]
    calls = [span for span in spans if span["name"].startswith("aten.") and not any(overlap(span, other) for other in sums)]
    predicted = [(span["name"], span["dur"] / 1e6) for span in calls]
    wrong = [(name, s) for name, s in predicted if not any(abs(s - t) < 1e-6 * t + 1e-9 for t in took.get(name, ()))]
    assert len(predicted) > 100 and not wrong


def overlap(one: dict, other: dict) -> bool:
    return one["ts"] < other["ts"] + other["dur"] and other["ts"] < one["ts"] + one["dur"]


def test_predicts_another_optimizer_and_mesh_by_estimates(workshop: Workshop, profile: Path) -> None:
    spans = simulate(workshop, profile, "--nodes=4", "--ranks-per-node=1", "--optimizer=sgd,lr=1")
    assert {span["cat"] for span in spans} >= {"compute", "optimizer", "inter gather", "inter reduce"}


def test_does_not_change_the_numbers(workshop: Workshop, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    execute(workshop, CONFIG, f"--profile={tmp_path / 'profile.json'}", f"--json={log}")
    keys = ("loss", "inter_bytes_sent", "system_allocations")
    expected = workshop.run(CONFIG, STEPS).steps
    assert [[step[key] for key in keys] for step in read_log(log)] == [[step[key] for key in keys] for step in expected]


def test_first_steps_have_the_same_entries(workshop: Workshop, profile: Path, tmp_path: Path) -> None:
    execute(workshop, CONFIG, f"--profile={tmp_path / 'first.json'}", "--profile-steps=1")

    def shape(path: Path) -> dict:
        measured = json.loads(path.read_text())
        for entry in (*measured["operators"], *measured["operations"]):
            assert entry.pop("seconds") > 0
        return measured | {"steps": 1}

    assert shape(tmp_path / "first.json") == shape(profile)


def test_refuses_more_steps_than_run(workshop: Workshop, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="error: --profile-steps: expected fewer than --steps, 2, as"):
        execute(workshop, CONFIG, f"--profile={tmp_path / 'p.json'}", "--profile-steps=2", steps=2)
    with pytest.raises(ToolError, match="error: --profile-steps: expected --profile"):
        execute(workshop, CONFIG, "--profile-steps=1", steps=2)


@pytest.mark.parametrize(
    "path, steps, message",
    [
        ("p.json", 1, "error: --profile: expected --steps of at least 2"),
        ("absent/p.json", 2, "error: --profile absent/p.json: cannot write to "),
    ],
)
def test_refuses(workshop: Workshop, path: str, steps: int, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        execute(workshop, CONFIG, f"--profile={path}", steps=steps)
