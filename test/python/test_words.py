# SPDX-License-Identifier: Apache-2.0
"""scripts/check-words finds nothing in what CI reads, and finds each fault in examples of it."""

import importlib.machinery
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/check-words"

# A sentence with each of the words that the glossary bans.
BANNED = {
    "note (a sum, a gradient)": "The pass notes the sum.",
    "hold, held (memory)": "The memory is held until the step ends.",
    "lend, lent (memory); what no buffer holds": "The memory is lent to operators.",
    "cut (over ranks)": "A bucket is cut over the ranks.",
    "leaving, arriving (values, tokens)": "The leaving values are listed.",
    "border (of a function; of a micro-batch)": "Tokens cross the border of a micro-batch.",
    "on its way, under way": "A gather is on its way.",
    "the sum (of gradients)": "The sum of gradients is loaded.",
    "wait (a copy waits in host memory)": "The copy waits in host memory.",
    "what is gathered ahead": "The slice is gathered ahead.",
    "give back (memory)": "The pool gives back its memory.",
    "whoever, who (streams, ranks)": "A rank who ends first tells the others.",
    "stand, stand behind (in memory)": "The states stand in the arena.",
    "what it takes (time, bytes)": "The report lists what it takes.",
    "of all, of each (as a sentence)": "Of all buckets.",
}


@pytest.fixture(scope="module")
def words() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("check_words", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_words", loader))
    sys.modules["check_words"] = module  # for its dataclasses
    loader.exec_module(module)
    return module


@pytest.fixture
def found(words: ModuleType, tmp_path: Path):
    def lines_of(name: str, text: str) -> list[int]:
        (tmp_path / name).write_text(text)
        return sorted({line for line, _ in words.check(name, tmp_path / name)})

    return lines_of


def test_finds_nothing() -> None:
    done = subprocess.run([SCRIPT], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_has_a_rule_for_each_word_of_the_glossary(found) -> None:
    ban = (ROOT / "docs/glossary.md").read_text().split("| do not write | write |\n|---|---|\n")[1]
    rows = [line.split("|")[1].strip() for line in ban.splitlines() if line.startswith("|")]
    assert rows == list(BANNED)
    assert not [sentence for sentence in BANNED.values() if not found("page.md", sentence)]


@pytest.mark.parametrize(
    "sentence",
    [
        "Of the plans, the fastest is taken.",
        "It ends. What is kept is small.",
        "The rest is kept (see below). Those of a node are not.",
        "Where the plan has one, it is used.",
        "Said even where another wait covers it.",
        "Whether it fits.",
        "The first is read; what follows is skipped.",
        "That of the last one counts.",
        "Each rank writes a file, and those of a node are merged.",
        "It runs, because that of the plan is known.",
        "The pass runs behind the decisions.",
        "The other ranks are told.",
        "The reason is said first.",
        "A number stands in front.",
        "It has that which was kept.",
    ],
)
def test_finds_a_sentence(found, sentence: str) -> None:
    assert found("page.md", sentence)
    assert found("header.h", f"/// {sentence}\nint x;\n") == [1]
    assert found("module.py", f'"""Does it.\n\n{sentence}\n"""\n') == [3]
    assert found("nodes.yaml", f"a: 1\n# {sentence}\n") == [2]
    assert found("Ops.td", f"def A {{\n  let description = [{{\n    {sentence}\n  }}];\n}}\n") == [3]


@pytest.mark.parametrize(
    "text",
    [
        "What does it cost? Nothing.",
        "# What it costs\n",
        "It says what is kept, and where.",
        "Its bytes are those of the closed form.",
        "A symbol stands for a rank. The other one stands in for it. A stand-in runs.",
        "Two GPUs are behind one switch. They cannot be told apart.",
        "The option `behind` is read.",
        "Read [the page](behind.md).",
        "    it was told behind\n",
        "```\nWhat is told\n```\n",
        "- an item\n\n      told\n",
        "| what | told |\n|---|---|\n| a | b |\n",
        "A person who trains a model reads the border-box.".replace("border-box", "`border-box`"),
        "<!-- told -->",
    ],
)
def test_accepts(found, text: str) -> None:
    assert found("page.md", text) == []


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("page.md", "a " * 61, [1]),
        ("page.md", "a " * 60, []),
        ("page.md", "| a |\n|---|\n| " + "a " * 70 + "|", []),
        ("page.md", "- " + "a" * 130, []),
        ("page.md", "One line\nthat was\ntold so.", [3]),
        ("page.md", "| a |\n|---|\n| b | Those of c |", [3]),
        ("code.cpp", "int told; // what is\n", []),
        ("code.cpp", 'fail("the rank "\n     "was told");\n', [2]),
        ("code.cpp", 'cl::desc("what to read")', [1]),
        ("code.cpp", 'print("what to read")', []),
        ("code.cpp", "/* It was told. */ 'x'", [1]),
        ("code.cpp", "// " + "a " * 70, [1]),
        ("code.cpp", "x; // " + "a " * 70, []),
        ("code.cpp", 'R"(It was\ntold)"', [2]),
        ("Ops.td", 'let summary = "what to read";', [1]),
        ("Ops.td", "let extraClassDeclaration = [{\n  int told; // It was told.\n}];", [2]),
        ("code.py", 'f(help="of all")', [1]),
        ("code.py", 'f(other="of all")', []),
        ("code.py", 'told = f"{told} was told {told}"', [1]),
        ("code.py", 'find(r"\\btold this\\b")', []),
        ("code.py", f'"""{"a " * 61}"""', [1]),
        ("code.py", f'SCRIPT = """\n{"a " * 61}\n"""', []),
        ("code.py", "x = 1  # told\n\n# It\n# was told\n", [1, 4]),
        ("run.sh", "told=1\ncat <<EOF\nIt was told.\nEOF\n", [3]),
        ("ops.mlir", "// It was\n// told so.\n  // CHECK: told\n#told = 1 // told\n// -----\n// RUN: told\n", [2]),
        ("ops.mlir", "// expected-error @+1 {{" + "a " * 60 + "}}\n// CHECK-DAG{LITERAL}: told\n// DontTell: told\n", []),
        ("tools.test", "# It was told.\n# RUN: echo told\n# ONE-NOT: told\necho told\n", [1]),
        ("data.csv", "it was told", []),
    ],
)
def test_finds_lines(found, name: str, text: str, lines: list[int]) -> None:
    assert found(name, text) == lines


def test_an_allowed_sentence_is_one_that_is_there(words: ModuleType) -> None:
    for name, part, reason in words.ALLOWED:
        assert part in (ROOT / name).read_text() and reason, name


def test_help_names_what_ci_reads(words: ModuleType) -> None:
    text = subprocess.run([SCRIPT, "--help"], capture_output=True, text=True, check=True).stdout
    assert ", ".join(words.CHECKED) in re.sub(r"\s+", " ", text)
