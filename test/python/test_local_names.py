# SPDX-License-Identifier: Apache-2.0
"""Types, aliases, constants and functions that are defined in a source file have names of their own in their library or
program.

Functions may have one name if their parameters differ, and equal aliases may be declared twice.

CI and the sanitizers compile many files of a library as one.
"""

import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = sorted(
    path.parent
    for folder in ("dialects", "lib", "runtime", "tools", "test/runtime")
    for path in (ROOT / folder).rglob("CMakeLists.txt")
    if re.search(r"add_(mlir_\w+_|mlir_|fcdp_|llvm_)?(library|executable|tool|test)\(", path.read_text())
)
DECLARATION = re.compile(
    r"^(?:struct|class|enum(?: class)?) (\w+)(?= |:|$|\n)(?!.*;$)"  # with a body
    r"|^using (\w+) ="
    r"|^(?:static )?(?:constexpr|const) .*?\b(\w+)(?:\[\w*\])? ?=",
    re.MULTILINE,
)
ALIAS = re.compile(r"^using (\w+) =([^;]*);", re.MULTILINE)
FUNCTION = re.compile(r"^\w[\w:<>,&*\[\] \n]*?[ &*\n](\w+\([^;{}]*?\)) (?:const )?\{", re.MULTILINE)


def signature(function: str) -> str:
    """Leaves out the names and defaults of parameters."""
    name, _, parameters = function.partition("(")
    parts = (" ".join(part.split()) for part in parameters.removesuffix(")").split(","))
    types = (re.sub(r"(?<=[ &*])\w+$", "", re.sub(r" =.*", "", part)).strip() for part in parts)
    return f"{name}({', '.join(types)})"


def local_names(text: str) -> set[str]:
    """Returns the names at the start of a line, as clang-format leaves them. Functions have their parameters."""
    functions = {signature(function) for function in FUNCTION.findall(text)}
    return {next(filter(None, match)) for match in DECLARATION.findall(text)} | functions


def sources(library: Path) -> list[Path]:
    """The source files of a library, which may have folders but no libraries inside. NoX.cpp is built instead of X.cpp.

    A file with a dash in its name is a program of its own, and each file of a folder `fake` a library.
    """
    inner = [other for other in LIBRARIES if library in other.parents]
    files = [path for path in library.rglob("*.cpp") if not path.name.startswith("No")]
    files = [path for path in files if "-" not in path.name and path.parent.name != "fake"]
    return [path for path in files if not any(other in path.parents for other in inner)]


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: str(path.relative_to(ROOT)))
def test_local_names(library: Path) -> None:
    files = defaultdict(list)
    aliases = defaultdict(list)
    for path in sources(library):
        text = path.read_text()
        for name in local_names(text):
            files[name].append(path.name)
        for name, meaning in ALIAS.findall(text):
            aliases[name].append(meaning)
    twice = {name: paths for name, paths in files.items() if len(paths) > 1}
    equal = {name for name in twice if len(aliases[name]) == len(twice[name]) and len(set(aliases[name])) == 1}
    assert {name: paths for name, paths in twice.items() if name not in equal} == {}


def test_names_are_found() -> None:
    text = "class Pass final : public Base {\nusing Counts = int;\nconstexpr int kMost = 1;\nclass Later;\n  struct In {\n"
    text += "static int count(int a,\n                 int b) {\nvoid Pass::run() {\n"
    text += "namespace {\n\nstd::vector<int>\nlistOf(int a) {\n  call(a);\n}\nint Pass::count() {\n} // namespace\n"
    assert local_names(text) == {"Pass", "Counts", "kMost", "count(int, int)", "listOf(int)"}
