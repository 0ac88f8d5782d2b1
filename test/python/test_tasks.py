# SPDX-License-Identifier: Apache-2.0
"""The lists under "Tasks" in CONTRIBUTING.md are complete: in a copy of the tree, a thing is added by each of them.

An operation, an optimizer, a tier, a strategy and a wire are added that are copies of existing ones (added_things.py).
Each change touches the files of its list and no others, and the generated files that change are in it, too. Without
one of these files, the test of the lists fails. TableGen, flatc and the compiler's front end accept what the changes
touch, and the front end names a class that was forgotten. The tests that have lists of the whole tree pass.

Nothing is linked or run: that a new thing does what it should is what the tests of its own list are for. An arena, the
second list of tiers, is not added.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest
import test_task_lists as lists
from added_things import ADDITIONS, Copy

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("FCDP_HOME", ROOT / "build"))

pytestmark = pytest.mark.skipif(not (BUILD / "build.ninja").exists(), reason="needs a build for its commands")

RECORDS = "dialects/Fcdp/FcdpTables.json"
SCHEMA = "generated/plan/Plan_generated.h"
# Pages that TableGen makes.
PAGES = {
    "docs/Dialects/Fcdp.md": "dialects/Fcdp/Fcdp.md",
    "docs/Passes/FcdpPasses.md": "include/fcdp/Transforms/FcdpPasses.md",
}
# Files that scripts/optimizer-records makes.
MADE = {"python/fcdp/optimizer_records.json": "python", "runtime/plan/StateRoles.inc": "runtime"}


def run(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, shell=True, cwd=cwd, capture_output=True, text=True)


def ninja(*arguments: str) -> str:
    command = ["ninja", "-C", str(BUILD), "--quiet", "-t", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@dataclass
class Tree:
    """A copy of the tree with all things added, and the files that each addition has touched."""

    root: Path
    build: Path
    touched: dict[str, set[str]]

    def there(self, command: str) -> str:
        """Returns a command of the build for the copy."""
        return command.replace(str(BUILD), str(self.build)).replace(str(ROOT), str(self.root))

    def make(self, output: str) -> None:
        """Makes a generated file. Dependencies for ninja are left out."""
        for command in ninja("commands", output).splitlines():
            done = run(self.there(command.partition(" -d ")[0]), self.root)
            assert done.returncode == 0, f"{output}: {done.stderr}"

    def generate(self) -> set[str]:
        """Does as scripts/generate-docs, and returns the files that have changed."""
        self.make(RECORDS)
        for page in PAGES:
            self.make(page)
        new = {page: (self.build / made).read_text() for page, made in PAGES.items()}
        for path, use in MADE.items():
            command = f"{sys.executable} scripts/optimizer-records {self.build / RECORDS} {use}"
            new[path] = run(command, self.root).stdout
        changed = {path for path, text in new.items() if (self.root / path).read_text() != text}
        for path in changed:
            (self.root / path).write_text(new[path])
        return changed


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    root = tmp_path_factory.mktemp("copy")
    listed = run("git ls-files --cached --others --exclude-standard", ROOT).stdout.split("\n")
    for path in filter(lambda path: (ROOT / path).is_file(), filter(None, listed)):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, root / path)
    run("git init --quiet", root)  # for tests that ask git for the files
    if (ROOT / ".venv").exists():
        (root / ".venv").symlink_to(ROOT / ".venv")  # commands may have its headers
    made = Tree(root, tmp_path_factory.mktemp("made"), {})
    for folder in (*{Path(inner).parent for inner in PAGES.values()}, "docs/Dialects", "docs/Passes", "generated/plan"):
        (made.build / folder).mkdir(parents=True)
    assert not made.generate(), "expected generated files that are up to date: run scripts/generate-docs"
    for heading, addition in ADDITIONS.items():
        copy = Copy(root, addition.names)
        addition.add(copy)
        made.touched[heading] = copy.touched | made.generate()
    return made


def rows(heading: str) -> list[lists.Row]:
    """The rows of a task's tables. An arena is not added."""
    tables = lists.tables((ROOT / "CONTRIBUTING.md").read_text(), heading)
    return [row for table in (tables[:1] if heading == "Add a tier" else tables) for row in table]


def fill(heading: str, text: str) -> str:
    addition = ADDITIONS[heading]
    return lists.Thing(addition.name, addition.Name, addition.Name).fill(text)


def matches(heading: str, row: lists.Row, paths: set[str]) -> bool:
    return any(fnmatch(path, fill(heading, row.path)) for path in paths)


@pytest.mark.parametrize("heading", ADDITIONS)
def test_a_task_touches_the_files_of_its_list(tree: Tree, heading: str) -> None:
    touched = tree.touched[heading]
    assert not {path for path in touched if not any(matches(heading, row, {path}) for row in rows(heading))}
    # Rows without a name are for some things only.
    assert not [row.path for row in rows(heading) if row.texts and not matches(heading, row, touched)]


@pytest.fixture
def names(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets the test of the lists read the copy."""
    monkeypatch.setattr(lists, "ROOT", tree.root)
    lists.product.cache_clear()
    yield
    lists.product.cache_clear()


@pytest.mark.parametrize("heading", ADDITIONS)
def test_a_forgotten_file_is_found(tree: Tree, names: None, heading: str) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    kinds = tuple(kind() for kind in lists.TASKS[heading])
    assert not list(lists.faults(page, heading, kinds))
    # A version has no name.
    named = [row for row in rows(heading) if row.texts not in ((), ("FCDP_ABI_VERSION",))]
    for path in sorted(tree.touched[heading]):
        changed = (tree.root / path).read_text()
        if (ROOT / path).exists():
            shutil.copy(ROOT / path, tree.root / path)
        else:
            (tree.root / path).unlink()
        found = list(lists.faults(page, heading, kinds))
        (tree.root / path).write_text(changed)
        assert found or not any(matches(heading, row, {path}) for row in named), f"expected a fault without '{path}'"


def test_lists_of_the_tree_hold(tree: Tree) -> None:
    names = "task_lists type_names layers plan_schema local_names file_names optimizer_records".split()
    tests = " ".join(f"test/python/test_{name}.py" for name in names)
    done = run(f"PYTHONPATH={tree.root}/python {sys.executable} -m pytest -q -p no:cacheprovider {tests}", tree.root)
    assert done.returncode == 0, done.stdout[-4000:]


# Sources that additions touch, with a library whose options they are checked with, as one file.
SOURCES = {
    "runtime/operators": [
        *(f"runtime/operators/{name}.cpp" for name in ("PreparedOp", "UnscaleGradients", "ShardUpdate", "MessageOps")),
        "runtime/optimizers/Tiger.cpp",
        "runtime/plan/PlanCheckOps.cpp",
        "runtime/plan/PlanMessages.cpp",
    ],
    "lib/Conversion": [
        "dialects/Fcdp/Wires.cpp",
        *(f"lib/Cluster/{name}.cpp" for name in ("CostModel", "WorkKind")),
        *(f"lib/Verification/{name}.cpp" for name in ("ClosedForms", "PlanRun")),
        *(f"lib/Transforms/Options/{name}.cpp" for name in ("Strategy", "WireSpec")),
        "lib/Conversion/PlanOps.cpp",
    ],
}


def list_tables(tree: Tree, without: Collection[str] = ()) -> None:
    """Does as CMakeLists.txt of operators and optimizers."""
    for variable, macro in (("operations", "FCDP_OPERATION"), ("optimizers", "FCDP_OPTIMIZER")):
        folder = "operators" if variable == "operations" else variable
        text = (tree.root / f"runtime/{folder}/CMakeLists.txt").read_text()
        listed = re.search(rf"set\({variable}(.*?)\)", text, re.DOTALL)
        assert listed
        names = [name.removesuffix(".cpp") for name in listed[1].split()]
        path = tree.build / f"runtime/{folder}/generated/{folder}/{variable.capitalize()}.inc"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{macro}({name}T)\n" for name in names if name not in without))


def check(tree: Tree, library: str, *forgotten: str) -> str:
    """Returns what the front end says about sources, with the library's options and precompiled headers.

    In forgotten files nothing has been added.
    """
    commands = (entry["command"] for entry in json.loads(ninja("compdb")) if "-emit-pch" not in entry["command"])
    own = next(command for command in commands if f" -o {library}/CMakeFiles/" in command)
    options = own.partition(" -MD ")[0].split()
    command = " ".join(option if "cmake_pch" in option else tree.there(option) for option in options)
    added = {path: (tree.root / path).read_text() for path in forgotten}
    for path in added:
        shutil.copy(ROOT / path, tree.root / path)
    source = tree.build / "All.cpp"
    source.write_text("".join(f'#include "{tree.root}/{path}"\n' for path in SOURCES[library]))
    done = run(f"{command} -I{BUILD} -ferror-limit=0 -fno-color-diagnostics -fsyntax-only {source}", tree.root)
    for path, text in added.items():
        (tree.root / path).write_text(text)
    return done.stderr if done.returncode else ""


def test_additions_compile_and_forgotten_ones_do_not(tree: Tree) -> None:
    for output in sorted(path.name for path in (BUILD / "dialects/Fcdp").glob("*.inc")):
        tree.make(f"dialects/Fcdp/{output}")
    tree.make("generated/plan/Plan_generated.h")
    list_tables(tree)
    for library in SOURCES:
        assert check(tree, library) == ""

    names = ("Cluster/CostModel", "Verification/PlanRun", "Conversion/PlanOps")
    consumers = [f"lib/{name}.cpp" for name in names]
    said = check(tree, "lib/Conversion", "dialects/Fcdp/Tiers.h", *consumers)
    assert errors(said) == {"dialects/Fcdp/Tiers.h", *consumers}
    assert "expected a row for each residency, in order" in said
    assert "no known conversion from 'fcdp::RescaleGradientsOp' to" in said

    list_tables(tree, without=("RescaleGradients", "Tiger"))
    said = check(tree, "runtime/operators")
    names = ("operators/PreparedOp", "operators/ShardUpdate")
    assert errors(said) >= {f"runtime/{name}.cpp" for name in names}
    functions = (("prepare", "RescaleGradientsT"), ("countBytes", "RescaleGradientsT"), ("makeOptimizer", "TigerT"))
    for function, table in functions:
        assert f"no matching function for call to '{function}'" in said
        assert f"no known conversion from 'const fcdp::plan::{table}' to" in said


def errors(said: str) -> set[str]:
    """The files of the copy in which the front end has found errors."""
    return set(re.findall(r"^\S+/copy\d*/(\S+?):\d+:\d+: error: ", said, re.MULTILINE))
