# SPDX-License-Identifier: Apache-2.0
"""The keys of --json are those that the documents describe."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from harness import BIN, ROOT, tool

import fcdp


class Step(torch.nn.Module):
    """Tokens, of which several lengths are exported, and a weight of the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(12, 8), torch.nn.Linear(8, 12)

    def forward(self, ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.head(self.embed(ids)).flatten(0, 1), ids.flatten())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two lengths of a step, and a trace and a log of a job that has all figures."""
    folder = tmp_path_factory.mktemp("keys")
    model = Step()
    for length in (4, 6):
        batch = (torch.zeros(2, length, dtype=torch.int64), torch.ones(2))
        fcdp.export(model, batch, folder / f"{length}.pt2", check=False)
    fcdp.export(model, batch, folder / "eval.pt2", train=False, check=False)
    rows = np.random.default_rng(1).integers(1, 12, (6, 2, 6))
    for name in ("ids", "more"):
        np.save(folder / f"{name}.npy", rows)
    np.save(folder / "weight.npy", np.ones((6, 2), np.float32))
    mesh = ("--nodes=1", "--ranks-per-node=2")
    compiled = [BIN / "fcdp-compile", folder / "4.pt2", folder / "6.pt2", f"--eval={folder / 'eval.pt2'}", *mesh]
    tool(*compiled, "--loss-weight=weight", "--clip-norm=1", "--loss-scale=on", "-o", folder / "step.so")
    tool(BIN / "fcdp-compile", folder / "6.pt2", *mesh, "-o", folder / "plain.so")
    one, weight = f"ids={folder}/ids.npy", f"weight={folder}/weight.npy"
    run = ["--steps=2", f"--weights={folder / '4.pt2'}", "--threads=1", *mesh]
    evaluated = ["--eval-every=1", f"--eval-input={one}", f"--eval-input={weight}"]
    inputs = [f"--input={one}", f"--input={weight}"]
    tool(BIN / "fcdp-run", folder / "step.so", *run, *inputs, *evaluated, f"--json={folder / 'first.jsonl'}")
    mixed = [f"--input={one},{folder}/more.npy", f"--input={weight},{folder}/weight.npy", "--data=weights=0.5:0.5"]
    tool(BIN / "fcdp-run", folder / "step.so", *run, *mixed, f"--json={folder / 'second.jsonl'}")
    random = ["--input=ids=random:1:12", "--input=weight=random:2"]
    tool(BIN / "fcdp-run", folder / "plain.so", *run, *random, f"--trace={folder / 'trace.json'}")
    return folder


def keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for part in value.values() for key in keys(part)}
    return {key for part in value for key in keys(part)} if isinstance(value, list) else set()


def codes(text: str) -> set[str]:
    """The words of a text that are code and may be keys."""
    found = re.findall(r"`([^`]+)`", text)
    return {name for code in found for name in re.findall(r'^[a-z][a-z0-9_]*$|(?<=")[a-z_]+(?=":)', code)}


def section(page: str, title: str) -> str:
    return (ROOT / "docs" / page).read_text().split(f"\n{title}\n")[1].split("\n## ")[0]


def cells(text: str, title: str) -> str:
    """The cells of a column, of all tables that have it."""
    found, place = [], None
    for line in text.splitlines():
        row = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if title in row:
            place = row.index(title)
        elif not row:
            place = None
        elif place is not None:
            found.append(row[place])
    return "\n".join(found)


def test_fcdp_run(made: Path) -> None:
    logs = [made / f"{name}.jsonl" for name in ("first", "second")]
    written = {key for log in logs for line in log.read_text().splitlines() for key in json.loads(line)}
    page = (ROOT / "docs/watching.md").read_text()
    assert sorted(written) == sorted(codes(cells(page, "in `--json` and TensorBoard") + cells(page, "in `--json`")))


# Keys whose values are objects by names: of strategies, resources, activities or places. A sentence describes these
# values.
NAMES = {"scenarios", "choices", "in_use"}


def without_names(value: Any) -> Any:
    """The value without the keys that are names of what it is about."""
    if isinstance(value, dict):
        return {key: list(part.values()) if key in NAMES else without_names(part) for key, part in value.items()}
    return [without_names(part) for part in value] if isinstance(value, list) else value


def test_fcdp_sim(made: Path) -> None:
    step, options = made / "6.pt2", ("--cluster=cpu", "--nodes=1", "--ranks-per-node=2", "--json")
    plain = json.loads(tool(BIN / "fcdp-sim", step, *options, f"--measured={made / 'trace.json'}"))
    compared = json.loads(tool(BIN / "fcdp-sim", step, "--cluster=rtx3090", "--compare=zero3,fcdp", "--json"))
    sweep = ("--sweep=bandwidth=1e6,1e9", "--sweep=memory=1e3,1e9")
    swept = json.loads(tool(BIN / "fcdp-sim", made / "4.pt2", step, *options, *sweep))
    failed = json.loads(tool(BIN / "fcdp-sim", step, *options, "--sweep=strategies=auto", "--sweep=memory=1e3,1e9"))
    written = keys(without_names([plain, compared, swept, failed]))
    text = section("simulator.md", "## JSON")
    not_described = written - codes(text)
    assert not not_described, f"expected docs/simulator.md to describe {sorted(not_described)}"
    not_written = codes(cells(text, "key")) - written
    assert not not_written, f"expected fcdp-sim to write the keys {sorted(not_written)} of docs/simulator.md"
