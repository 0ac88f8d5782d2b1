# SPDX-License-Identifier: Apache-2.0
"""The compiler's records of optimizers and of state roles (dialects/Fcdp/FcdpOptimizers.td and FcdpStateRoles.td).

scripts/generate-docs writes them to optimizer_records.json.
"""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SettingRecord:
    """A setting that --optimizer takes."""

    name: str
    kind: str  # "number", "flag", "count" or "word".
    tuple: str | None  # The setting of PyTorch that is a tuple with this one in it.
    default: float | str | None  # None: it may be left out.


@dataclass(frozen=True)
class OptimizerRecord:
    name: str
    class_path: str  # Its class in Python, with the module.
    without_flags: tuple[str, ...]  # Flags of the class that must be false.
    updates_all: bool  # False: some only, such as matrices.
    takes_rest: bool  # Another optimizer may have the other parameters.
    settings: tuple[SettingRecord, ...]
    states: tuple[str, ...]

    @property
    def tuples(self) -> dict[str, tuple[str, ...]]:
        """Returns the settings in each tuple, in order."""
        names = dict.fromkeys(setting.tuple for setting in self.settings if setting.tuple)
        return {name: tuple(setting.name for setting in self.settings if setting.tuple == name) for name in names}


_RECORDS = json.loads(Path(__file__).with_suffix(".json").read_text())

OPTIMIZERS = tuple(
    OptimizerRecord(
        record["name"],
        record["class"],
        tuple(record["without_flags"]),
        record["updates_all"],
        record["takes_rest"],
        tuple(SettingRecord(**setting) for setting in record["settings"]),
        tuple(record["states"]),
    )
    for record in _RECORDS["optimizers"]
)

# The roles of the states that optimizers keep for parameters, which checkpoints have beside values and masters.
STATE_ROLES = tuple(role["name"] for role in _RECORDS["roles"] if role["kind"] == "optimizer" and role["name"] != "master")
# The roles of all states beside the values that checkpoints have of parameters, those of optimizers first.
SAVED_ROLES = (
    "master",
    *STATE_ROLES,
    *(role["name"] for role in _RECORDS["roles"] if role["saved"] and role["kind"] not in ("parameters", "optimizer")),
)
