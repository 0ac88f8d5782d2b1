# SPDX-License-Identifier: Apache-2.0
"""The measured results, in a JSON file, so that a run can be continued."""

import json
import math
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rows import ROWS, Compiled, Peer
from settings import ROUNDED, TOLERANCES, Setting
from steps import ROOT

COARSE = 1e-2
"""Greatest relative difference of the first loss of a row that is not exact. Weights may be quantized there."""


@dataclass
class Run:
    steps: int
    seconds: list[float]
    losses: list[float]
    sent: list[int]
    """Bytes that the kernel counted at each node's uplink, from the start of the ranks to their end."""
    peak: int
    """The greatest memory of a rank, in bytes."""
    date: str
    others: float
    """The processors that other programs used meanwhile."""
    counted: int | None = None
    """Bytes that a node sent in the last step by fcdp's own count."""


@dataclass
class Tried:
    """The first run of a row, of one step and without a limit of the link, or the reason why there is none."""

    reason: str | None = None
    run: Run | None = None
    planned: int | None = None

    @staticmethod
    def failed(error: Exception) -> "Tried":
        """Paths in the reason are relative to the checkout."""
        return Tried(str(error).replace(f"{ROOT}/", ""))


@dataclass
class Model:
    """A model in a type and with a number of micro-batches, whatever the link."""

    parameters: int
    trained: int
    tried: dict[str, Tried] = field(default_factory=dict)


@dataclass
class Results:
    path: Path
    models: dict[str, Model] = field(default_factory=dict)
    runs: dict[str, dict[str, list[Run]]] = field(default_factory=dict)
    """By the names of the setting and of the row."""
    versions: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> "Results":
        if not path.exists():
            return Results(path)
        kept = json.loads(path.read_text())
        models = {name: Model(**{**model, "tried": _tried(model["tried"])}) for name, model in kept["models"].items()}
        runs = {name: _runs(rows) for name, rows in kept["runs"].items()}
        return Results(path, models, runs, kept["versions"])

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        kept = {"versions": self.versions, "models": _plain(self.models), "runs": _plain(self.runs)}
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(kept, indent=1))
        part.rename(self.path)

    def settings(self) -> list[Setting]:
        """Returns the settings that have runs, those of one model and type beside each other, slow links first."""
        found = [Setting.parse(name) for name, rows in self.runs.items() if any(rows.values())]
        return sorted(found, key=lambda x: (x.model, x.dtype != "f32", x.micro_batches, x.megabits or math.inf))

    def forget(self, settings: list[Setting], rows: set[str]) -> None:
        """Drops runs. The first ones of one step, which are not timed, stay."""
        for setting in settings:
            kept = self.of(setting)
            for row in rows & kept.keys():
                del kept[row]

    def of(self, setting: Setting) -> dict[str, list[Run]]:
        return self.runs.setdefault(setting.name, {})


def _runs(kept: dict[str, Any]) -> dict[str, list[Run]]:
    return {row: [Run(**run) for run in found] for row, found in kept.items()}


def _tried(kept: dict[str, Any]) -> dict[str, Tried]:
    return {row: Tried(x["reason"], x["run"] and Run(**x["run"]), x["planned"]) for row, x in kept.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return asdict(value)


@dataclass(frozen=True)
class Figures:
    """A row of a table."""

    row: Compiled | Peer
    seconds: float
    sent: float
    """Bytes that left a node in a step."""
    peak: int
    last_loss: float
    difference: float
    """The greatest relative difference of a loss from the first row's."""


def figures(name: str, tried: Tried, runs: list[Run], first: list[float]) -> Figures:
    row = ROWS[name]
    assert tried.run is not None
    if row.cycle == 1:
        seconds = statistics.median(second for run in runs for second in run.seconds[1:])
    else:
        seconds = statistics.median(statistics.mean(run.seconds[1:]) for run in runs)
    # The bytes of a run of one step are subtracted: joining, the first gathers of frozen parameters, and the first
    # step.
    sent = statistics.median(
        max(count - start for count, start in zip(run.sent, tried.run.sent)) / (run.steps - tried.run.steps)
        for run in runs
    )
    compared = min(len(first), min(len(run.losses) for run in runs))
    shown = runs[0].losses[:compared]
    difference = max(abs(run.losses[i] / first[i] - 1) for run in runs for i in range(compared if row.exact else 1))
    return Figures(row, seconds, sent, max(run.peak for run in runs), shown[-1], difference)


def faults(setting: Setting, name: str, tried: Tried, runs: list[Run], first: list[float]) -> list[str]:
    """Returns what shows that a row does not train the same thing, or does not send what was planned."""
    row, found = ROWS[name], figures(name, tried, runs, first)
    allowed = TOLERANCES[setting.dtype] if row.exact else COARSE
    if row.rounds_masters and setting.dtype == "bf16":
        allowed = max(allowed, ROUNDED)
    wrong = []
    if not found.difference <= allowed:
        difference = f"a loss differs from fcdp's by {found.difference:.1e} of it, expected at most {allowed:.0e}"
        wrong.append(f"{setting.name}: {name}: {difference}")
    for run in runs:
        if tried.planned is None:
            continue
        counted = run.counted or 0
        if counted > tried.planned or (counted < tried.planned and not (isinstance(row, Compiled) and row.coded)):
            wrong.append(f"{setting.name}: {name}: sent {run.counted:,} bytes in a step, planned {tried.planned:,}")
    return wrong
