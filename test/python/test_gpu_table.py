# SPDX-License-Identifier: Apache-2.0
"""docs/gpus.md has the tables of what was measured on a GPU."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_has_the_tables() -> None:
    command = [sys.executable, ROOT / "benchmarks/gpu/table.py"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    tables = printed.strip().split("\n\n")
    page = (ROOT / "docs/gpus.md").read_text()
    assert len(tables) == 3 and all(table in page for table in tables)
