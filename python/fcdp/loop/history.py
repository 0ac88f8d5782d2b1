# SPDX-License-Identifier: Apache-2.0
"""Keeps what the first steps of a job show, and decides by it how later jobs plan the same step.

A step's first plan comes from a description of the machines. Its operations are timed, and then its steps. A later job
plans by these times if they explain how long the first plan's steps took and promise a faster plan. Once both plans
have run, the one with the shorter steps is taken.
"""

import contextlib
import json
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fcdp.loop.cache import write_whole
from fcdp.loop.library import call
from fcdp.loop.prediction import predicted_steps

PROFILED_STEPS = 5
"""Steps after the first whose operations are timed for a profile. They run a little slower on GPUs."""
_TIMED_STEPS = 10
_FEWEST_TIMED_STEPS = 3
# A prediction by a profile explains the steps if it differs from them by at most this share.
_EXPLAINED = 0.1
# The program of a plan among the files of --dump-dir.
_PLANNED = "3-planned.mlir"
# A plan by a profile is tried if it saves at least this share of the first plan's step.
_WORTH = 0.03


@dataclass(frozen=True)
class History:
    """The files that are kept of one step, on rank 0's machine."""

    folder: Path

    @property
    def profile(self) -> Path:
        return self.folder / "profile.json"

    @property
    def _seconds(self) -> Path:
        return self.folder / "seconds.json"

    def seconds_of(self, plan: str) -> float | None:
        """Returns the median seconds of a step of `plan`, the name of an object, if they were measured."""
        seconds = _read(self._seconds).get(plan)
        return float(seconds) if isinstance(seconds, (int, float)) else None

    def keep_seconds(self, plan: str, seconds: float) -> None:
        with contextlib.suppress(OSError):  # The next job does without what cannot be written.
            write_whole(self._seconds, json.dumps({**_read(self._seconds), plan: seconds}).encode())


def _read(path: Path) -> dict[str, Any]:
    """Returns the members of a JSON file; none of one that is missing or damaged."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def is_profile(path: Path) -> bool:
    """Tells whether there is a profile that is not damaged."""
    return "operators" in _read(path)


def should_plan_by_profile(history: History, first: str, later: str, archive: Path, options: Sequence[str]) -> bool:
    """Tells whether a job plans by the profile of `history`, which earlier jobs have written.

    `first` and `later` are the names of the plans' objects without and with it, `options` those of the first plan.
    """
    measured = history.seconds_of(first)
    if measured is None or not is_profile(history.profile):
        return False
    measured_later = history.seconds_of(later)
    if measured_later is not None:
        return measured_later < measured
    profile = f"--profile={history.profile}"
    explained = predict_planned(archive, options, profile)
    if explained is None or abs(explained / measured - 1) > _EXPLAINED:
        return False
    promised = _predict(archive, [*options, profile])
    return promised is not None and promised <= (1 - _WORTH) * explained


def predict_planned(archive: Path, options: Sequence[str], profile: str) -> float | None:
    """Returns the seconds of a step by a profile, if the step is planned without it."""
    with tempfile.TemporaryDirectory() as folder:
        if _predict(archive, [*options, f"--dump-dir={folder}"]) is None:
            return None
        cluster = [option for option in options if option.startswith("--cluster=")]
        return _predict(Path(folder) / _PLANNED, [*cluster, profile])


def _predict(program: Path, options: Sequence[str]) -> float | None:
    """Returns the seconds that fcdp-sim predicts for a step of `program`; None if it cannot."""
    steps = predicted_steps(program, options)
    return steps[0].get("seconds") if steps else None


class StepWatch:
    """Writes the profile of a job's first steps, and how long the steps after them take. For rank 0."""

    def __init__(self, profile: Path | None, history: History | None = None, plan: str = ""):
        """`profile` is where to write the profile, if the session makes one, `plan` the name of the job's object."""
        self._profile = profile
        self._history = history
        self._plan = plan
        self._steps = 0
        self._skipped = 1 + (PROFILED_STEPS if profile is not None else 0)
        self._timed: list[float] = []

    def after_step(self, session: Any, seconds: float) -> None:
        """Is called after each step, which took `seconds`."""
        if self._profile is not None:
            self._keep_profile(session, self._profile)
        self._steps += 1
        if self._history is not None and self._steps > self._skipped:
            self._timed.append(seconds)
            if len(self._timed) == _TIMED_STEPS:
                self.finish()

    def finish(self) -> None:
        """Keeps the seconds of the steps so far, if they are enough. A second call does nothing."""
        history, self._history = self._history, None
        if history is not None and len(self._timed) >= _FEWEST_TIMED_STEPS:
            history.keep_seconds(self._plan, statistics.median(self._timed))

    def _keep_profile(self, session: Any, path: Path) -> None:
        text = call(session.take_profile)
        if text is not None:
            self._profile = None
            with contextlib.suppress(OSError):  # The next job does without what cannot be written.
                write_whole(path, text.encode())
