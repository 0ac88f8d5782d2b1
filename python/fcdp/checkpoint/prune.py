# SPDX-License-Identifier: Apache-2.0
"""Removes old checkpoints of a run, and what crashes left."""

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fcdp.checkpoint.atomic import sync
from fcdp.checkpoint.errors import CheckpointError
from fcdp.checkpoint.index import read_index
from fcdp.checkpoint.runs import RunEntry, run_entries


@dataclass(frozen=True)
class Removal:
    path: Path
    bytes: int
    reason: str


def plan_removals(run: Path, keep: int, force: bool) -> list[Removal]:
    """Returns what to remove: all but the latest `keep` checkpoints and that of the best evaluation, and leftovers.

    A running job writes one checkpoint at a time, in a folder *.partial. So the one that was written to last stays,
    unless `force` says that no job is running.
    """
    if not run.is_dir():
        raise CheckpointError(run, "the folder of a run", "a file" if run.exists() else "nothing", "check the name")
    entries = run_entries(run)
    if not entries:
        raise CheckpointError(run, "checkpoints step-*", "none", "name the folder that --save-dir names")
    complete = [entry for entry in entries if entry.status == "complete"]
    removed = [entry for entry in entries if entry.status == "removed"]
    partial = sorted((entry for entry in entries if entry.status == "partial"), key=lambda entry: _last_write(entry.path))
    best = _best_step(complete)
    return [
        *(Removal(entry.path, _bytes(entry.path), "old") for entry in complete[:-keep] if entry.step != best),
        *(Removal(entry.path, _bytes(entry.path), "left by a removal") for entry in removed),
        *(Removal(entry.path, _bytes(entry.path), "left by a crash") for entry in _left(partial, force)),
    ]


def _best_step(complete: list[RunEntry]) -> int | None:
    """Returns the step whose evaluation had the least loss, as the latest checkpoint with a good index has it."""
    for entry in reversed(complete):
        with contextlib.suppress(CheckpointError):
            return read_index(entry.path).job.get("best_step")
    return None


def _left(partial: list[RunEntry], force: bool) -> list[RunEntry]:
    return partial if force else partial[:-1]


def remove(run: Path, removals: list[Removal]) -> Iterator[Removal]:
    """Removes, and yields each when it is gone. A checkpoint gets the suffix .removed first, so it is never half there.

    Skips what a running job has removed in the meantime.
    """
    for removal in removals:
        path = removal.path
        if path.suffix not in (".partial", ".removed"):
            target = path.with_name(f"{path.name}.removed")
            try:
                if target.exists():
                    shutil.rmtree(target)
                path.rename(target)
            except FileNotFoundError:
                continue
            sync(run)
            path = target
        while path.exists():
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(path)
        yield removal


def _entries(folder: Path) -> Iterator[os.stat_result]:
    """Yields the folder and its files, as far as they are still there."""
    for path in [folder, *(Path(parent) / name for parent, _, names in os.walk(folder) for name in names)]:
        with contextlib.suppress(FileNotFoundError):
            yield path.lstat()


def _bytes(folder: Path) -> int:
    return sum(entry.st_size for entry in _entries(folder) if not stat.S_ISDIR(entry.st_mode))


def _last_write(folder: Path) -> int:
    return max((entry.st_mtime_ns for entry in _entries(folder)), default=0)
