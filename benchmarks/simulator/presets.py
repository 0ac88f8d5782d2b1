# SPDX-License-Identifier: Apache-2.0
"""Reads the presets of clusters, which may build on one another."""

from pathlib import Path
from typing import Any

import yaml

CLUSTERS = Path(__file__).resolve().parents[2] / "cluster"


def merge(base: Any, own: Any) -> Any:
    """Returns `base` with what `own` says: mappings key by key, all else as a whole."""
    if not isinstance(base, dict) or not isinstance(own, dict):
        return own
    merged = base | {key: merge(base[key], value) if key in base else value for key, value in own.items()}
    # Only links behind a switch have this key.
    if merged.get("sharing") != "switch":
        merged.pop("ranks_per_switch", None)
    return merged


def read_preset(name: str) -> dict[str, Any]:
    """Returns a preset with what it has from its base."""
    own: dict[str, Any] = yaml.load((CLUSTERS / f"{name}.yaml").read_text(), yaml.SafeLoader)
    base = own.pop("base", None)
    merged: dict[str, Any] = merge(read_preset(base), own) if base else own
    return merged
