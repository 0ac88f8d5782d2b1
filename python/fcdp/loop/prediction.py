# SPDX-License-Identifier: Apache-2.0
"""Predicts steps with fcdp-sim."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fcdp.loop.install import find_install


def predicted_steps(program: Path, options: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the steps of fcdp-sim --json for `program`, one for each strategy; none if it fails."""
    command = [find_install().compiler.with_name("fcdp-sim"), program, *options, "--json"]
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        return list(json.loads(done.stdout)["steps"]) if done.returncode == 0 else []
    except (OSError, ValueError, KeyError):
        return []
