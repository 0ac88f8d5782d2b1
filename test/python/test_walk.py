# SPDX-License-Identifier: Apache-2.0
"""examples/ir/step.mlir is the step that examples/ir/model.py exports. test/lit/Docs/walk.test checks the page."""

import re
import runpy
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER, BIN = ROOT / "examples/ir", ROOT / "build/bin"


def without_origin(module: str) -> str:
    """The module without comments, locations and the archive's path."""
    module = re.sub(r'fcdp\.archive = "[^"]*", ', "", module)
    module = re.sub(r" loc\(.*\)$", "", module, flags=re.MULTILINE)
    return "\n".join(line for line in module.splitlines() if line and not line.startswith(("//", "#loc")))


def test_the_step_is_the_exported_model(tmp_path: Path) -> None:
    archive = tmp_path / "step.pt2"
    runpy.run_path(str(FOLDER / "model.py"))["export"](str(archive))
    command = [BIN / "fcdp-translate", "--import-pt2", archive]
    imported = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert without_origin((FOLDER / "step.mlir").read_text()) == without_origin(imported)
