# SPDX-License-Identifier: Apache-2.0
"""The trace of a measured step: its operations, and its place beside the prediction for the same plan."""

import itertools
import json
from collections import Counter
from pathlib import Path

import pytest

from harness import BIN, Config, ToolError, Workshop, read_plan, run_command, tool

CASES = [Config("gpt_bf16", micro_batches=3), Config("gpt", strategy="zero3"), Config("gpt", strategy="hpz", clip_norm=1.0)]


def trace(workshop: Workshop, config: Config, path: Path, steps: int = 2) -> list[dict]:
    model = workshop.model(config.model)
    mesh = (f"--nodes={config.nodes}", f"--ranks-per-node={config.local}")
    tool(*run_command(workshop.step(config), model.archive, model.inputs, steps, *mesh, f"--trace={path}"))
    return json.loads(path.read_text())["traceEvents"]


def simulate(workshop: Workshop, config: Config, *options: str) -> str:
    """fcdp-sim with the options that `config` is compiled with."""
    mesh = (f"--nodes={config.nodes}", f"--ranks-per-node={config.local}", f"--micro-batches={config.micro_batches}")
    clip = () if config.clip_norm is None else (f"--clip-norm={config.clip_norm}",)
    plan = (f"--strategy={config.strategy}", f"--optimizer={config.optimizer}", *mesh, *clip)
    return tool(BIN / "fcdp-sim", workshop.model(config.model).archive, "--cluster=cpu", *plan, *options)


def spans_of(events: list[dict]) -> list[dict]:
    return [event for event in events if event["ph"] == "X"]


def ranks_of(config: Config) -> range:
    return range(config.nodes * config.local)


@pytest.mark.parametrize("config", CASES, ids=lambda config: config.name)
def test_has_the_spans_of_the_simulated_step(workshop: Workshop, config: Config, tmp_path: Path) -> None:
    """Streams, names, categories and places; sums are left out, which a reduction may make itself."""
    measured = trace(workshop, config, tmp_path / "measured.json")
    simulate(workshop, config, f"--trace={tmp_path / 'predicted.json'}")
    predicted = json.loads((tmp_path / "predicted.json").read_text())["traceEvents"]

    def count(events: list[dict]) -> Counter:
        kept = [s for s in spans_of(events) if not s["name"].startswith(("aten.", "accumulate", "wait", "loss"))]
        return Counter((s["tid"], s["name"], s["cat"], s["args"]["function"], s["args"].get("module")) for s in kept)

    for rank in ranks_of(config):
        of_rank = [event for event in measured if event["pid"] == rank]
        assert count(of_rank) == count(predicted)
        thread_names = [{e["tid"]: e["args"]["name"] for e in es if e["name"] == "thread_name"} for es in (of_rank, predicted)]
        assert thread_names[0] == thread_names[1]


@pytest.mark.parametrize("config", CASES, ids=lambda config: config.name)
def test_spans_follow_each_other(workshop: Workshop, config: Config, tmp_path: Path) -> None:
    events = trace(workshop, config, tmp_path / "trace.json")
    begins = {event["pid"]: event["ts"] for event in events if event["name"] == "step begins"}
    assert sorted(begins) == list(ranks_of(config)) and min(begins.values()) == 0
    for rank, stream in itertools.product(ranks_of(config), range(7)):
        spans = [span for span in spans_of(events) if (span["pid"], span["tid"]) == (rank, stream)]
        ends = [span["ts"] + span["dur"] for span in spans]
        assert all(end <= after["ts"] + 1e-3 for end, after in zip(ends, spans[1:]))
        assert all(span["ts"] >= begins[rank] - 1e-3 for span in spans)
    calls = [op for op in read_plan(workshop.step(config))["ops"] if op["kind"] == "aten_call"]
    operators = [span for span in spans_of(events) if span["name"].startswith("aten.")]
    assert len(operators) >= len(calls) * len(ranks_of(config))


@pytest.mark.parametrize("config", CASES, ids=lambda config: config.name)
def test_stands_beside_the_predicted_step(workshop: Workshop, config: Config, tmp_path: Path) -> None:
    path, page = tmp_path / "trace.json", tmp_path / "page.html"
    trace(workshop, config, path)
    text = simulate(workshop, config, f"--measured={path}", f"--report={page}", "--json")
    predicted, measured = json.loads(text)["steps"]
    assert measured["bytes"]["step"] == predicted["bytes"]["step"]
    assert measured["host_memory"]["bytes"] == predicted["host_memory"]["bytes"]
    assert abs(measured["device_memory"]["bytes"] / predicted["device_memory"]["bytes"] - 1) < 0.05
    whole = sum([*measured["on_compute_stream"].values(), *measured["exposed"].values(), measured["bubble"]])
    assert whole == pytest.approx(measured["seconds"], rel=1e-6)
    assert measured["ranks"]["count"] == len(ranks_of(config))
    assert measured["ranks"]["least"] <= measured["ranks"]["median"] <= measured["ranks"]["most"] == measured["seconds"]
    assert f'"measured in {path}"' in page.read_text()


def test_refuses_a_folder_that_is_not_there(workshop: Workshop) -> None:
    with pytest.raises(ToolError, match="error: --trace absent/t.json: cannot write to "):
        trace(workshop, CASES[1], Path("absent/t.json"))
