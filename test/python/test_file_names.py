# SPDX-License-Identifier: Apache-2.0
"""The names of files: one style for each kind, as CONTRIBUTING.md says."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOPS = ("benchmarks", "dialects", "examples", "include", "lib", "python", "runtime", "scripts", "test", "tools")

CAMEL_CASE = r"[A-Z][A-Za-z0-9]*"
KEBAB_CASE = r"[a-z0-9]+(-[a-z0-9]+)*"
SNAKE_CASE = r"_*[a-z0-9]+(_[a-z0-9]+)*_*"

# A path belongs to the first pattern that matches it.
STYLES = [
    (r"runtime/include/fcdp/.*\.h", SNAKE_CASE),
    (r".*\.(cpp|h|cu|td|fbs|inc)", CAMEL_CASE),
    (r"test/lit/.*\.(mlir|test)", KEBAB_CASE),
    (r".*\.(py|c)", SNAKE_CASE),
]


def has_main(path):
    return re.search(r"^int main\(", path.read_text(), re.M) is not None


def is_well_named(path):
    name = str(path)
    style = next((style for pattern, style in STYLES if re.fullmatch(pattern, name)), None)
    stem = path.name.partition(".")[0]
    if style is None or re.fullmatch(style, stem):
        return True
    return path.suffix == ".cpp" and re.fullmatch(KEBAB_CASE, stem) is not None and has_main(ROOT / path)


def test_every_file_is_named_by_its_style():
    files = [path.relative_to(ROOT) for top in TOPS for path in (ROOT / top).rglob("*") if path.is_file()]
    assert len(files) > 500
    assert not [str(path) for path in files if not is_well_named(path)]


@pytest.mark.parametrize("name", ["test/runtime/core/sum-test.cpp", "lib/a_b.h", "test/lit/A.mlir", "python/a-b.py"])
def test_a_wrong_name_is_found(name, monkeypatch):
    monkeypatch.setattr("test_file_names.has_main", lambda path: False)
    assert not is_well_named(Path(name))
