# SPDX-License-Identifier: Apache-2.0
"""docs/status.md names tests that exist, and has the page of each feature."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS, TESTS = ROOT / "docs", ROOT / "test"
HEADER = ["feature", "CPU", "CUDA, emulated", "CUDA on a device", "limits"]
# Pages about the project as a whole. Any other page of docs is about a feature.
OTHER_PAGES = {
    "README.md",
    "architecture.md",
    "benchmarks.md",
    "glossary.md",
    "limits.md",
    "status.md",
    "tools.md",
    "troubleshooting.md",
}


def rows(text: str) -> list[list[str]]:
    """The cells of all tables, without headers."""
    found = []
    for line in text.splitlines():
        if not line.startswith("|") or line.startswith("|---"):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert len(cells) == len(HEADER), f"expected {len(HEADER)} cells, found {len(cells)}: {line}"
        if cells != HEADER:
            found.append(cells)
    return found


def named_stages(cell: str) -> list[str]:
    return re.findall(r"`gpu/([^`]+)`", cell)


def has_stage(name: str) -> bool:
    return f'Stage("{name}",' in re.sub(r"Stage\(\s+", "Stage(", (ROOT / "scripts/gpu").read_text())


def named_tests(cell: str) -> list[str]:
    return re.findall(r"`((?:chaos|compiler|e2e|lit|python|runtime)/[^`]+)`", cell)


def defines(text: str, name: str, suffix: str) -> bool:
    pattern = rf"^def {name}\(" if suffix == ".py" else rf"^TEST\w*\(\s*\w+,\s*{name}\)"
    return re.search(pattern, text, re.M) is not None


def faults(text: str) -> list[str]:
    """Returns the faults of a page, a line each."""
    found = []
    for feature, cpu, emulated, device, _ in rows(text):
        named = named_tests(cpu) + named_tests(emulated)
        if not named:
            found.append(f"{feature}: expected a test on the CPU or on an emulated device, found none")
        if not named_tests(emulated) and emulated != "no":
            found.append(f"{feature}: expected 'no' or a test on an emulated device, found '{emulated}'")
        if not named_stages(device) and device != "no":
            found.append(f"{feature}: expected 'no' or a stage of scripts/gpu, found '{device}'")
        found += [
            f"{feature}: expected a stage {stage} of scripts/gpu, found none; name the stage that shows this now"
            for stage in named_stages(device)
            if not has_stage(stage)
        ]
        for test in named:
            path, _, name = test.partition("::")
            file = TESTS / path
            if not file.is_file():
                found.append(
                    f"{feature}: expected a test file test/{path}, found none; name the file that tests this now"
                )
            elif name and not defines(file.read_text(), name, file.suffix):
                found.append(
                    f"{feature}: expected a test {name} in test/{path}, found none; name the test that tests this now"
                )
    return found


def pages_of_features() -> set[str]:
    return {page.name for page in DOCS.glob("*.md")} - OTHER_PAGES


def linked(text: str) -> set[str]:
    return set(re.findall(r"\]\(([\w-]+\.md)", "\n".join(row[0] for row in rows(text))))


def test_named_tests_exist() -> None:
    text = (DOCS / "status.md").read_text()
    assert len(rows(text)) > 40
    assert not faults(text)


def test_each_feature_is_there() -> None:
    missing = pages_of_features() - linked((DOCS / "status.md").read_text())
    assert not missing, f"expected a row of docs/status.md that links to each of {sorted(missing)}"


@pytest.mark.parametrize(
    ("row", "count"),
    [
        ("| x | `e2e/test_auto.py` | no | no | |", 0),
        ("| x | `e2e/test_auto.py::test_bit_equal_to_a_preset` | no | no | |", 0),
        ("| x | `runtime/cuda/CudaJobTest.cpp::OneRankOverTheFakes` | no | no | |", 0),
        ("| x | `e2e/test_gone.py` | no | no | |", 1),
        ("| x | `e2e/test_auto.py::test_gone` | no | no | |", 1),
        ("| x | `runtime/cuda/CudaJobTest.cpp::Gone` | no | no | |", 1),
        ("| x | tested | no | no | |", 1),
        ("| x | `e2e/test_auto.py` | yes | no | |", 1),
        ("| x | `e2e/test_auto.py` | no | yes | |", 1),
        ("| x | `e2e/test_auto.py` | no | `gpu/caching` | |", 0),
        ("| x | `e2e/test_auto.py` | no | `gpu/jobs`, `gpu/gone` | |", 1),
    ],
)
def test_a_wrong_row_is_found(row: str, count: int) -> None:
    assert len(faults(row)) == count
