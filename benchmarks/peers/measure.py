# SPDX-License-Identifier: Apache-2.0
"""Runs the rows of a table on hosts, in turn, and keeps what was measured."""

import math
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import data
from netns import run_ranks
from packages import NotInstalled
from programs import Program, Unavailable, compiled, export, peer
from results import Model, Results, Run, Tried
from rows import FIRST, Compiled, Peer
from settings import NODES, RANKS, RANKS_PER_NODE, Setting

PEAK = Path(__file__).with_name("peak.py")
# Errors of ranks that lost another one, or waited for it: not the reason.
CONSEQUENCES = re.compile(
    r"Connection closed|Connection reset|Broken pipe|Timed out|timed out|DistNetworkError|failed to connect"
)
WARNING = re.compile(r"^\[W\d+")
ERROR = re.compile(r"^(?:\[rank\d+\]: *)?((?:\w+\.)*\w*(?:Error|Exception)\b.*)$", re.MULTILINE)


@dataclass
class Bench:
    results: Results
    folder: Path
    steps: int
    rounds: int
    timeout: float
    programs: dict[tuple[str, str], Program] = field(default_factory=dict)

    def measure(self, setting: Setting, rows: list[Compiled | Peer]) -> None:
        self._try_all(setting, rows)
        model, runs = self.results.models[setting.step_name], self.results.of(setting)
        for turn in range(self.rounds):
            for row in rows:
                kept = runs.setdefault(row.name, [])
                if model.tried[row.name].reason is None and len(kept) <= turn:
                    self._run_once(setting, row, kept)

    def _run_once(self, setting: Setting, row: Compiled | Peer, kept: list[Run]) -> None:
        steps = 1 + math.ceil((self.steps - 1) / row.cycle) * row.cycle
        try:
            found = self._run(setting, row, self.programs[setting.step_name, row.name], steps, setting.megabits)
        except Unavailable as error:
            self.results.models[setting.step_name].tried[row.name] = Tried.failed(error)
            say(f"{setting.name}: {row.name}: {error}")
        else:
            kept.append(found)
            say(f"{setting.name}: {row.name}: {', '.join(f'{second:.2f}' for second in found.seconds[1:])} s")
        self.results.write()

    def _try_all(self, setting: Setting, rows: list[Compiled | Peer]) -> None:
        """Makes the programs, and runs those for one step that have not been tried."""
        folder = self.folder / setting.step_name
        if (setting.step_name, FIRST.name) not in self.programs:
            folder.mkdir(parents=True, exist_ok=True)
            rows_of_text = data.write(folder)
            exported = export(setting, rows_of_text, folder)
            model = self.results.models.setdefault(setting.step_name, Model(exported.parameters, exported.trained))
            for row in rows:
                try:
                    if isinstance(row, Compiled):
                        program = compiled(row, setting, exported, rows_of_text, folder)
                    else:
                        program = peer(row, setting, rows_of_text, folder)
                except (Unavailable, NotInstalled) as error:
                    if row == FIRST:
                        raise
                    model.tried[row.name] = Tried.failed(error)
                    say(f"{setting.step_name}: {row.name}: {error}")
                    continue
                self.programs[setting.step_name, row.name] = program
                self._try(setting, row, program, model)
                self.results.write()

    def _try(self, setting: Setting, row: Compiled | Peer, program: Program, model: Model) -> None:
        kept = model.tried.get(row.name)
        if kept and kept.run and kept.planned == program.planned:
            return
        try:
            found = self._run(setting, row, program, 1, None)
        except Unavailable as error:
            model.tried[row.name] = Tried.failed(error)
            say(f"{setting.step_name}: {row.name}: {error}")
        else:
            model.tried[row.name] = Tried(None, found, program.planned)
            say(f"{setting.step_name}: {row.name}: runs")

    def _run(self, setting: Setting, row: Compiled | Peer, program: Program, steps: int, megabits: int | None) -> Run:
        """Raises Unavailable with the reason if a peer fails. If fcdp fails, the benchmark does."""
        prefix = self.folder / setting.step_name / "peak-"
        command = [sys.executable, "-SE", str(PEAK), str(prefix), *program.command(steps)]
        before, begin = _busy_seconds(), time.monotonic()
        try:
            sent, _ = run_ranks(command, NODES, RANKS_PER_NODE, megabits, self.timeout)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            said = str(error)
            (self.folder / setting.step_name / f"{row.name}.log").write_text(said)
            if isinstance(row, Compiled):
                raise
            late = isinstance(error, subprocess.TimeoutExpired)
            raise Unavailable(f"had not ended after {self.timeout:.0f} s" if late else _reason(said)) from error
        own = sum(float(Path(f"{prefix}{rank}.cpu").read_text()) for rank in range(RANKS))
        others = (_busy_seconds() - before - own) / (time.monotonic() - begin)
        ran = program.read()
        peak = max(int(Path(f"{prefix}{rank}").read_text()) for rank in range(RANKS))
        date = datetime.now(timezone.utc).isoformat(timespec="seconds")
        return Run(steps, ran.seconds, ran.losses, sent, peak, date, max(others, 0.0), ran.counted)


def _busy_seconds() -> float:
    """Returns the seconds that all processors have spent in programs and in the kernel for them, without interrupts."""
    user, nice, system = (int(word) for word in Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def _reason(said: str) -> str:
    """Returns the first error that is not the consequence of another."""
    errors = ERROR.findall(said)
    causes = [error for error in errors if not CONSEQUENCES.search(error)]
    other = [line for line in said.splitlines() if not WARNING.match(line)]
    return (causes or errors or other[-1:] or ["failed without a message"])[0].strip()


def say(what: str) -> None:
    print(what, flush=True)
