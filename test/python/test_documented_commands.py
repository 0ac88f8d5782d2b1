# SPDX-License-Identifier: Apache-2.0
"""The commands of the documents have options that the tools know."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build/bin"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/rationale").glob("*.md"))]
TOOLS = ("fcdp-run", "fcdp-probe", "fcdp-compile", "fcdp-sim", "fcdp-opt", "fcdp-translate", "fcdp-cluster", "fcdp-ckpt")


@cache
def known_options(tool: str) -> set[str]:
    command = [sys.executable, "-m", "fcdp.checkpoint"] if tool == "fcdp-ckpt" else [str(BIN / tool)]
    text = said(*command, "--help")
    if tool == "fcdp-ckpt":
        text += "".join(said(*command, action, "--help") for action in re.findall(r"^    (\w+)  ", text, re.M))
    return set(re.findall(r"--[a-z][\w-]*", text)) | {"--help", "--version"}


def said(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def commands(text: str) -> list[str]:
    """The indented lines of a page, with those that a backslash continues."""
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [line.strip() for line in lines if re.match(r" {4}\S", line)]


def options(command: str) -> list[tuple[str, str]]:
    """The options of each of our tools in a command, by tool."""
    found = []
    for part in re.split(r"\s(?:\||&&|;|>)\s", command):
        words = part.split()
        for index, word in enumerate(words):
            name = Path(word).name.removesuffix("-emulated")
            if name in TOOLS:
                given = (re.match(r"\[?(--[a-z][\w-]*)", other) for other in words[index + 1 :])
                found += [(name, match[1]) for match in given if match]
                break
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_are_known(page: Path) -> None:
    unknown = {
        f"{tool} {option}"
        for command in commands(page.read_text())
        for tool, option in options(command)
        if option not in known_options(tool)
    }
    assert not unknown


def test_an_unknown_option_is_found() -> None:
    text = "Text\n\n    build/bin/fcdp-run step.so --steps=3 \\\n        --stepz=4 | grep --color x\n"
    assert [options(command) for command in commands(text)] == [[("fcdp-run", "--steps"), ("fcdp-run", "--stepz")]]
    assert "--steps" in known_options("fcdp-run") and "--stepz" not in known_options("fcdp-run")
    assert "--transformers" in known_options("fcdp-ckpt")
