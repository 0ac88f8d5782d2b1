# SPDX-License-Identifier: Apache-2.0
"""The README is short, its picture is drawn by its script, and its measured figures are those of docs/benchmarks.md."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
WORDS = 700
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text()


def test_is_short() -> None:
    assert len(README.split()) < WORDS, f"expected fewer than {WORDS} words; move what is left over to a page of docs"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_picture_is_that_of_its_script(theme: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts/draw_bucket.py", tmp_path], check=True)
    name = f"bucket-{theme}.svg"
    assert (ROOT / "docs" / name).read_bytes() == (tmp_path / name).read_bytes(), "run scripts/draw_bucket.py docs"
    assert f"docs/{name}" in README


def measured_table() -> str:
    """The table that the README's command for measured rows makes."""
    [command] = re.findall(r'^    PEERS="(.*)"$', README, re.M)
    assert "--models gpt --dtypes bf16 --megabits 200" in command
    title = "**gpt, bfloat16 with float32 masters, 1 micro-batch, 200 Mbit/s between nodes**"
    assert BENCHMARKS.count(title) == 1
    return re.split(r"^\*\*|^#", BENCHMARKS.split(title)[1], flags=re.M)[0]


def test_measured_figures_are_those_of_the_benchmarks() -> None:
    table = measured_table()
    assert "Other programs" not in table, "expected figures of a machine without other load"
    rows = {
        cells[0]: cells[1:]
        for line in table.splitlines()
        if (cells := [cell.strip() for cell in line.strip("|").split("|")])
    }
    plain, coded = re.findall(r"^\|.*\| `\$PEERS \S+` \|$", README, re.M)
    for row, names in ((plain, ("FSDP2, full shard", "fcdp")), (coded, ("fcdp, `--wire=delta --reduce-wire=coded`",))):
        figures = re.findall(r"([\d.]+) s, ([\d,]+) bytes", row)
        expected = [(rows[name][0], rows[name][2].removesuffix(" bytes")) for name in names]
        assert figures == expected
