# SPDX-License-Identifier: Apache-2.0
"""Runs every ```mlir example of a generated page through fcdp-opt.

An example is a fragment: it names symbols and values that it does not define.
They come from a prelude, a text file with two kinds of sections:

    == module
    one declaration per line; an example gets those that it refers to
    == OPERATION
    the values that examples of OPERATION use: one line of a function's
    arguments, then lines of its body

An operation without an example is an error as well.
"""

import argparse
import re
import shlex
import subprocess
import sys

EXAMPLE = re.compile(r"^```mlir\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPERATION = re.compile(r"^### `([a-z_]+\.[a-z_]+)` \(", re.MULTILINE)
SYMBOL = re.compile(r"@[\w.]+")


def read_prelude(path):
    declarations, values, lines = {}, {}, None
    with open(path) as file:
        for line in file.read().splitlines():
            if line.startswith("== "):
                section = line[3:]
                lines = values.setdefault(section, [])
            elif line and not line.startswith("//"):
                lines.append(line)
    for line in values.pop("module", []):
        declarations[SYMBOL.search(line).group()] = line
    return declarations, values


def needed(text, declarations):
    """The declarations that `text` refers to, with those that they refer to."""
    defined = {SYMBOL.search(line).group() for line in text.splitlines() if is_declaration(line)}
    # A bucket is checked against the mesh without naming it.
    if any(line.startswith("fcdp.mesh") for line in text.splitlines()):
        mesh = []
    else:
        mesh = [name for name, line in declarations.items() if line.startswith("fcdp.mesh")]
    wanted, queue = set(mesh), SYMBOL.findall(text)
    while queue:
        name = queue.pop()
        if name in declarations and name not in wanted and name not in defined:
            wanted.add(name)
            queue += SYMBOL.findall(declarations[name])
    return [line for name, line in declarations.items() if name in wanted]


def is_declaration(line):
    return re.match(r"fcdp\.(mesh|parameter|buffer|input|bucket|state|kernel) @", line) is not None


def wrap(operation, example, declarations, values):
    arguments, *body = values.get(operation, [""])
    lines = needed(example + "\n".join(body), declarations)
    if is_declaration(example):
        lines.append(example)
    else:
        lines += [f"func.func @example({arguments}) {{", *body, example, "return", "}"]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page")
    parser.add_argument("--prelude", required=True)
    parser.add_argument("--tool", default="fcdp-opt", help="a command, with its options")
    arguments = parser.parse_args()
    declarations, values = read_prelude(arguments.prelude)
    with open(arguments.page) as file:
        page = file.read()

    starts = list(OPERATION.finditer(page))
    ends = [match.start() for match in starts[1:]] + [len(page)]
    failures = count = 0
    for match, end in zip(starts, ends):
        operation = match.group(1)
        examples = EXAMPLE.findall(page[match.end() : end])
        if not examples:
            print(f"{arguments.page}: error: {operation} has no example")
            failures += 1
        for example in examples:
            module = wrap(operation, example, declarations, values)
            run = subprocess.run(shlex.split(arguments.tool), input=module, capture_output=True, text=True)
            count += 1
            if run.returncode == 0 and operation in run.stdout:
                continue
            failures += 1
            print(f"{arguments.page}: error: the example of {operation} does not run\n{module}\n{run.stderr}")
    print(f"{count} examples of {len(starts)} operations, {failures} errors")
    return 1 if failures or not starts else 0


if __name__ == "__main__":
    sys.exit(main())
