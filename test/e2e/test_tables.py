# SPDX-License-Identifier: Apache-2.0
"""scripts/generate-tables: planned and predicted figures of the documents are those of the tools."""

import importlib.machinery
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from harness import LONG

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "generate-tables"


def load():
    loader = importlib.machinery.SourceFileLoader("generate_tables", str(SCRIPT))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


@pytest.mark.parametrize("which", ["--short", pytest.param("--long", marks=LONG)])
def test_pages_have_the_figures_of_the_tools(which):
    done = subprocess.run([sys.executable, SCRIPT, "--check", which], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


PAGE = """# A page

| step | bytes | time |
|---|---|---|
| one | 1 | 2 s |
| two | 3 | 4 s |

It takes 5.5 s with
`auto`, and 1,000 bytes.
"""


def test_cells_are_found_by_row_and_column():
    cells = load().Cells("page.md", "| step | bytes | time |", {"two": {"time": "9 s"}})
    assert cells.write(PAGE) == PAGE.replace("| two | 3 | 4 s |", "| two | 3 | 9 s |")


def test_figures_are_found_by_their_sentence():
    sentence = load().Sentence("page.md", "It takes {} s with `auto`, and {} bytes.", ("7", "2,000"))
    assert sentence.write(PAGE) == PAGE.replace("5.5", "7").replace("1,000", "2,000")


def test_a_page_without_its_table_or_sentence_is_an_error():
    tables = load()
    for missing, message in (
        (tables.Cells("page.md", "| step | bytes |", {}), r"page.md: expected one table .* found 0"),
        (tables.Cells("page.md", "| step | bytes | time |", {"six": {}}), r"expected a row 'six' .* found \['one', 'two'\]"),
        (tables.Sentence("page.md", "It takes {} hours", ("1",)), r"expected one sentence 'It takes {} hours', found 0"),
    ):
        with pytest.raises(tables.Fault, match=message):
            missing.write(PAGE)
