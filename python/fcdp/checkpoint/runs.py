# SPDX-License-Identifier: Apache-2.0
"""The checkpoints in the folder of a run: step-STEP, and what a crash left of others."""

import re
from dataclasses import dataclass
from pathlib import Path

from fcdp.checkpoint.index import FILE_NAME

_NAME = re.compile(r"step-(\d+)(\.partial|\.removed)?")


@dataclass(frozen=True)
class RunEntry:
    path: Path
    step: int
    status: str  # "complete", "partial", "removed", or "unknown" without an index.


def run_entries(run: Path) -> list[RunEntry]:
    """Returns the folders of a run by step; none if it is not the folder of a run."""
    entries = []
    for path in run.iterdir():
        match = _NAME.fullmatch(path.name)
        if match and path.is_dir() and not path.is_symlink():
            status = (match[2] or ".complete")[1:]
            if status == "complete" and not (path / FILE_NAME).is_file():
                status = "unknown"
            entries.append(RunEntry(path, int(match[1]), status))
    return sorted(entries, key=lambda entry: (entry.step, entry.path.name))


def complete_checkpoints(run: Path) -> list[RunEntry]:
    """Returns the complete checkpoints, the latest last."""
    return [entry for entry in run_entries(run) if entry.status == "complete"]


def is_unfinished(path: Path) -> bool:
    """Returns whether a name is that of a checkpoint that is being written or removed."""
    match = _NAME.fullmatch(path.name)
    return match is not None and match[2] is not None
