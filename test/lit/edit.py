# SPDX-License-Identifier: Apache-2.0
"""Prints a file with lines changed, for tests of what a changed module does. An edit that changes nothing is an error.

A pattern is written as for FileCheck: literal text, in which a space matches any number of spaces, and {{regular
expressions}}. Edits are made in the order in which they are given.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path


def compile_pattern(text: str) -> re.Pattern[str]:
    parts = re.split(r"\{\{(.*?)\}\}", text)
    # Parts of odd index were in braces.
    return re.compile("".join(part if i % 2 else re.sub(r"(\\ )+", " +", re.escape(part)) for i, part in enumerate(parts)))


class Edit(argparse.Action):
    """Collects edits in the order of the command line, each with the preceding --in, --line and --first."""

    def __call__(self, parser, namespace, values, option=None):
        edits = namespace.edits = getattr(namespace, "edits", None) or []
        edits.append((option, values, namespace.function, namespace.line, namespace.first))
        namespace.line, namespace.first = None, False


def in_function(lines: list[str], name: str | None) -> Iterator[int]:
    """Yields the indices of the lines of a function, or of all lines."""
    inside = name is None
    for i, line in enumerate(lines):
        if name is not None and (found := re.search(r"func\.func @(\w+)", line)):
            inside = found[1] == name
        if inside:
            yield i


def apply(
    lines: list[str], option: str, values: list[str], function: str | None, line: str | None, first: bool
) -> list[str]:
    """Returns the lines after one edit. A line must match `line`, too, to be edited."""
    pattern, beside = compile_pattern(values[0]), compile_pattern(line or "")
    found = [i for i in in_function(lines, function) if pattern.search(lines[i]) and beside.search(lines[i])]
    if not found:
        where, also = f" of @{function}" if function else "", f" and {line!r}" if line else ""
        sys.exit(f"edit.py: error: no line{where} has {values[0]!r}{also}")
    chosen = set(found[:1] if first else found)
    made = []
    for i, text in enumerate(lines):
        if i not in chosen:
            made.append(text)
        elif option == "--replace":
            made.append(pattern.sub(values[1], text))
        elif option == "--repeat":
            made += [text, text]
        elif option == "--insert-after":
            made += [text, values[1]]
        elif option == "--insert-file-after":
            made += [text, *Path(values[1]).read_text().splitlines()]
        elif option == "--insert-before":
            made += [values[1], text]
    return made


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("file", type=argparse.FileType(), help="- for standard input")
    parser.add_argument("--in", dest="function", metavar="FUNCTION", help="edits that follow are made in this function only")
    parser.add_argument("--line", metavar="PATTERN", help="the next edit is made only on lines that have this, too")
    parser.add_argument("--first", action="store_true", help="the next edit is made only on the first line that it finds")
    for option, help_text, *metavar in (
        ("--replace", "replaces each match by TEXT, in which \\1 is the first group of PATTERN", "PATTERN", "TEXT"),
        ("--delete", "deletes each line that matches", "PATTERN"),
        ("--repeat", "writes each line that matches twice", "PATTERN"),
        ("--insert-after", "adds a line after each line that matches", "PATTERN", "TEXT"),
        ("--insert-file-after", "adds the lines of FILE after each line that matches", "PATTERN", "FILE"),
        ("--insert-before", "adds a line before each line that matches", "PATTERN", "TEXT"),
    ):
        parser.add_argument(option, action=Edit, nargs=len(metavar), metavar=tuple(metavar), help=help_text)
    args = parser.parse_args()
    if not getattr(args, "edits", None):
        parser.error("expected an edit")
    lines = args.file.read().splitlines()
    for edit in args.edits:
        lines = apply(lines, *edit)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
