# SPDX-License-Identifier: Apache-2.0
"""Runs fcdp-sim on a step of some shape, and represents the results of a part of the validation."""

import json
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from presets import read_preset
from steps import Shape, Steps


@dataclass
class Row:
    name: str
    published: float
    predicted: float
    note: str = ""

    @property
    def error(self) -> float:
        return self.predicted / self.published - 1 if self.published else float(self.predicted > 0)


@dataclass
class Goal:
    """A goal of a part: `text` describes it, and `found` is the result."""

    text: str
    found: str
    holds: bool


@dataclass
class Part:
    source: str
    unit: str
    rows: list[Row] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    fit: str = ""
    """Names the inputs that were chosen with these figures in sight, which makes them fits and not predictions."""

    def show(self) -> None:
        print(f"\n{self.source}; {self.unit.replace('predicted', 'fitted') if self.fit else self.unit}")
        if self.fit:
            print(f"  a fit: {self.fit}")
        width = max((len(row.name) for row in self.rows), default=0)
        for row in self.rows:
            print(f"  {row.name:<{width}}  {row.published:>12,.6g} {row.predicted:>12,.6g} {row.error:>+8.1%}  {row.note}".rstrip())
        for remark in self.remarks:
            print(f"  {remark}")
        for goal in self.goals:
            print(f"  {'holds' if goal.holds else 'FAILS'}: {goal.text}: {goal.found}")


def load_preset(name: str) -> dict[str, Any]:
    """Returns a preset with NCCL's rings for collectives over all ranks, as in the published runs."""
    return {**read_preset(name), "flat_collectives": "ring"}


class Simulator:
    def __init__(self, tools: Path, steps: Steps, folder: Path) -> None:
        """Uses `folder` for its files."""
        self.tools, self.steps, self.folder = tools, steps, folder
        self.lock = threading.Lock()

    def run(self, shape: Shape, batch: int, sequence: int, cluster: dict[str, Any], *options: str) -> dict[str, Any]:
        """Returns the JSON object of one step with `batch` sequences per rank. docs/simulator.md has its keys."""
        step = self.folder / f"{shape.name}-{batch}-{sequence}.mlir"
        with self.lock:
            if not step.exists():
                self.steps.write(shape, batch, sequence, step)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir=self.folder) as description:
            yaml.dump(cluster, description)
            description.flush()
            command = [self.tools / "fcdp-sim", step, f"--cluster={description.name}", "--json", *options]
            done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"fcdp-sim of {shape.name}: {done.stderr.strip()}")
        return json.loads(done.stdout)["steps"][0]
