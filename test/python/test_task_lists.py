# SPDX-License-Identifier: Apache-2.0
"""The lists of files under "Tasks" in CONTRIBUTING.md are right for what exists.

A row has a file, its content, and the text by which the file names a thing. Each existing operation, optimizer,
residency, preset and wire must be named so in its row's file. Other sources must not name all of a kind.
"""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("dialects", "include", "lib", "runtime", "tools", "python")
SOURCES = (".td", ".h", ".cpp", ".cu", ".fbs", ".py", ".js")


@dataclass(frozen=True)
class Thing:
    """The names of an existing thing, by placeholder: `name`, `Name`, and `Table` of the plan's schema."""

    name: str
    Name: str = ""
    Table: str = ""

    def fill(self, text: str) -> str:
        for placeholder in ("Name", "Table", "name"):
            text = re.sub(rf"(?<![a-z]){placeholder}(?![a-z])", getattr(self, placeholder), text)
        return text


@dataclass(frozen=True)
class Row:
    path: str
    texts: tuple[str, ...]


def read(path: str) -> str:
    return (ROOT / path).read_text()


@cache
def product() -> dict[str, str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *PRODUCT]
    paths = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return {path: read(path) for path in paths if path.endswith(SOURCES) and (ROOT / path).is_file()}


def union(name: str) -> dict[str, str]:
    """The tables of a union of the plan's schema, by member."""
    found = re.search(rf"^union {name} \{{(.*?)^\}}", read("runtime/plan/Plan.fbs"), re.MULTILINE | re.DOTALL)
    assert found
    return dict(re.findall(r"(\w+): (\w+)", found[1]))


def cases(enum: str) -> list[str]:
    """The cases of an enum of the dialect."""
    found = re.search(rf'Fcdp_Enum<"{enum}",.*?\[(.*?)\]>;', read("dialects/Fcdp/FcdpAttrs.td"), re.DOTALL)
    assert found
    return re.findall(r'EnumAttrCase<"(\w+)"', found[1])


def definitions() -> str:
    return read("dialects/Fcdp/FcdpOps.td") + read("dialects/Fcdp/FcdpHostOps.td")


def operations() -> list[Thing]:
    tables = union("OpBody")
    names = re.findall(r"^def Fcdp_(\w+)Op : ", definitions(), re.MULTILINE)
    snake = {name: re.sub(r"(?<=.)([A-Z])", r"_\1", name).lower() for name in names}
    return [Thing(snake[name], name, tables.get(snake[name], "")) for name in names]


def planned_operations() -> list[Thing]:
    return [thing for thing in operations() if thing.Table]


def timed_operations() -> list[Thing]:
    """Operations that take time, without collectives and copies, which have costs by interface and by kind of work."""
    heads = re.findall(r"^def Fcdp_(\w+)Op : (.*?) \{$", definitions(), re.MULTILINE | re.DOTALL)
    is_timed = {name: not re.search(r'TakesNoTime|Collective|Work<"copy">', head) for name, head in heads}
    return [thing for thing in planned_operations() if is_timed[thing.Name]]


def optimizers() -> list[Thing]:
    tables = union("Optimizer")
    records = read("dialects/Fcdp/FcdpOptimizers.td")
    names = re.findall(r'^def Fcdp_\w+Attr : Fcdp_Optimizer<"\w+", "(\w+)"', records, re.MULTILINE)
    return [Thing(name, tables[name]) for name in names]


def presets() -> list[Thing]:
    names = re.findall(r'^    \{"(\w+)",', read("lib/Transforms/Options/Strategy.cpp"), re.MULTILINE)
    return [Thing(name) for name in names]


def residencies() -> list[Thing]:
    return [Thing(name) for name in cases("Residency")]


def arenas() -> list[Thing]:
    return [Thing(name) for name in cases("Arena")]


def wires() -> list[Thing]:
    return [Thing(name) for name in cases("Wire") if name not in ("raw", "delta")]


# The things of each table below a heading, in order.
TASKS = {
    "Add an operation": (operations, planned_operations, timed_operations),
    "Add an optimizer": (optimizers,),
    "Add a tier": (residencies, arenas),
    "Add a strategy": (presets,),
    "Add a wire": (wires,),
}
# The ways in which sources name a thing. One that names all things of a kind in one of these must be in the list.
MARKS = {
    "Add an operation": ("NameOp", "plan::TableT"),
    "Add an optimizer": ("plan::NameT", "NameAttr"),
    "Add a tier": ("Residency::name", "Arena::name"),
    "Add a strategy": ("name",),
    "Add a wire": ("Wire::name", "'name'"),
}


def tables(page: str, heading: str) -> list[list[Row]]:
    section = re.search(rf"^### {heading}$(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    assert section, f"expected a heading '### {heading}'"
    found = []
    for lines in re.findall(r"^\|[^\n]*\n\|---[^\n]*\n((?:\|[^\n]*\n)+)", section[1], re.MULTILINE):
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines.splitlines()]
        found.append([Row(path.strip("`"), tuple(re.findall(r"`([^`]+)`", texts))) for path, _, texts in cells])
    return found


def has(text: str, words: str) -> bool:
    """Whether a text has these words, not as a part of others."""
    begin, end = (r"\b" if re.match(r"\w", part) else "" for part in (words[0], words[-1]))
    return re.search(begin + re.escape(words) + end, text) is not None


def faults(page: str, heading: str, kinds: tuple[list[Thing], ...]) -> Iterator[str]:
    """Yields a message for each thing that a file of a list does not name."""
    found = tables(page, heading)
    if len(found) != len(kinds):
        yield f"{heading}: expected {len(kinds)} tables, found {len(found)}"
    for rows, things in zip(found, kinds):
        for row in rows:
            for thing in things:
                paths = sorted(ROOT.glob(thing.fill(row.path)))
                if not paths:
                    yield f"{heading}: '{row.path}': expected a file '{thing.fill(row.path)}', found none"
                    continue
                text = "\n".join(path.read_text() for path in paths)
                for words in map(thing.fill, row.texts):
                    if not has(text, words):
                        yield f"{heading}: '{row.path}': expected '{words}' in it, found none"


def unlisted(page: str, heading: str, kinds: tuple[list[Thing], ...]) -> Iterator[str]:
    """Yields a message for each source that names all things of a kind, and that no list has."""
    for things in kinds:
        filled = {thing.fill(row.path) for rows in tables(page, heading) for row in rows for thing in things}
        listed = {str(path.relative_to(ROOT)) for path in {found for path in filled for found in ROOT.glob(path)}}
        for path, text in product().items():
            for mark in MARKS[heading]:
                words = [thing.fill(mark) for thing in things]
                if path not in listed and all(word in text and has(text, word) for word in words):
                    yield f"{heading}: '{path}' names all of {words}: expected it in a list of CONTRIBUTING.md"


@pytest.mark.parametrize("heading", TASKS)
def test_lists_are_right_for_what_exists(heading: str) -> None:
    kinds = tuple(kind() for kind in TASKS[heading])
    assert all(len(things) >= 2 for things in kinds)
    page = read("CONTRIBUTING.md")
    assert not [*faults(page, heading, kinds), *unlisted(page, heading, kinds)]


PAGE = """
### Add a tier

| file | content | names |
|---|---|---|
| `{path}` | cases | `{text}` |
"""


@pytest.mark.parametrize(
    ("path", "text", "fault"),
    [
        ("dialects/Fcdp/Tiers.h", "Residency::name", ""),
        ("dialects/Fcdp/Tier*.h", "Residency::name", ""),
        ("lib/Planning/Gone.cpp", "Residency::name", "expected a file 'lib/Planning/Gone.cpp', found none"),
        ("dialects/Fcdp/Tiers.h", "Residency::names", "expected 'Residency::names' in it, found none"),
        ("runtime/plan/Plan.fbs", "Residency::name", "expected 'Residency::full' in it, found none"),
    ],
)
def test_a_stale_row_is_found(path: str, text: str, fault: str) -> None:
    messages = list(faults(PAGE.format(path=path, text=text), "Add a tier", (residencies(),)))
    assert fault in messages[0] if fault else not messages


def test_a_missing_row_is_found() -> None:
    page = PAGE.format(path="dialects/Fcdp/Tiers.h", text="Residency::name")
    messages = list(unlisted(page, "Add a tier", (residencies(),)))
    assert any("'lib/Verification/ClosedForms.cpp' names all of" in message for message in messages)
    assert not any("CopyPolicy.cpp" in message for message in messages)
