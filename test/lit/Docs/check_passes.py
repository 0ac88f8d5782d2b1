# SPDX-License-Identifier: Apache-2.0
"""Runs the example of every pass on a generated page.

The description of a pass shows what the pass does to a fragment of a module:

    Before:
    ```mlir
    FRAGMENT
    ```
    After `--PASS=OPTIONS`:
    ```mlir
    LINES
    ```

LINES follow each other in the output of `fcdp-opt --PASS=OPTIONS`; `...` matches
any part of a line, or any lines if it is alone on a line. Values may
have any names. A pass that only checks a module shows what it refuses, as
"Refused by `--PASS`:" with one block, which ends with `// error: MESSAGE`.

A template completes the fragment to a module. It is a file of sections: after
`== PHASE PASS PASS ...` come the lines of a module that the examples of these
passes are put into. Declarations and functions of the fragment replace those of
the template with the same name; other lines are the body of its first function.

A pass without an example is an error, as is an example in which nothing changes.
"""

import argparse
import re
import shlex
import subprocess
import sys
import tempfile

PASS = re.compile(r"^### `-([\w-]+)`$", re.MULTILINE)
BLOCK = r"\s*```mlir\n(.*?)^```$"
CHANGE = re.compile(rf"^Before:{BLOCK}\s*^After `--([^`]+)`:{BLOCK}", re.MULTILINE | re.DOTALL)
REFUSAL = re.compile(rf"^Refused by `--([^`]+)`:{BLOCK}", re.MULTILINE | re.DOTALL)
ERROR = re.compile(r"^// error: (.*)$", re.MULTILINE)
DECLARATION = re.compile(r"\s*fcdp\.(?:mesh|parameter|buffer|input|bucket|state) (@[\w.]+)")
FUNCTION = re.compile(r"\s*func\.func (@[\w.]+)")


class Parts:
    """The declarations, the functions and the other lines of a text, by name."""

    def __init__(self, lines):
        self.header, self.declarations, self.functions, self.body = [], {}, {}, []
        function = None
        for line in lines:
            if function is not None:
                function.append(line)
                if line.strip() == "}":
                    function = None
            elif match := FUNCTION.match(line):
                function = self.functions[match.group(1)] = [line]
                if line.rstrip().endswith("}"):
                    function = None
            elif match := DECLARATION.match(line):
                self.declarations[match.group(1)] = line
            elif line.strip().startswith("module"):
                self.header.append(line)
            elif line.strip() not in ("", "}"):
                self.body.append(line)


def read_templates(path):
    templates, lines = {}, []
    with open(path) as file:
        for line in file.read().splitlines():
            if line.startswith("== "):
                lines = []
                templates.update((name, lines) for name in line.split()[2:])
            elif not line.startswith("//"):
                lines.append(line)
    return templates


def complete(fragment, template):
    template, fragment = Parts(template), Parts(fragment.splitlines())
    header = fragment.header or template.header
    declarations = {**template.declarations, **fragment.declarations}
    functions = {**template.functions, **fragment.functions}
    if fragment.body:
        name = next(iter(functions))
        first, *rest = functions[name]
        place = next((i for i, line in enumerate(rest) if line.strip() == "// example"), 0)
        functions[name] = [first, *rest[:place], *fragment.body, *rest[place:]]
    lines = [*header, *declarations.values()]
    for function in functions.values():
        lines += function
    return "\n".join([*lines, "}"]) + "\n"


def expectation(lines):
    """Directives of FileCheck for `lines`, in which values may have any names."""
    directive, known, result = "CHECK:", set(), []

    def value(match):
        name = match.group(1)
        variable = "V" + name
        if name in known:
            return f"%[[{variable}]]"
        known.add(name)
        return f"%[[{variable}:[0-9a-z_]+]]"

    for line in lines.splitlines():
        line = line.strip()
        if line == "...":
            directive = "CHECK:"
            continue
        if not line or line.startswith("//"):
            continue
        text = re.sub(r"%(\w+)", value, line).replace("...", "{{.*}}")
        result.append(f"{directive} {text}")
        directive = "CHECK-NEXT:"
    return "\n".join(result) + "\n"


class Checker:
    def __init__(self, tool, filecheck):
        self.tool, self.filecheck = shlex.split(tool), shlex.split(filecheck)

    def run(self, module, *options):
        return subprocess.run([*self.tool, *options], input=module, capture_output=True, text=True)

    def matches(self, output, expected):
        """Returns FileCheck's message about `output`, or an empty text if it is as expected."""
        with tempfile.NamedTemporaryFile("w", suffix=".check") as file:
            file.write(expected)
            file.flush()
            run = subprocess.run([*self.filecheck, file.name], input=output, capture_output=True, text=True)
        return run.stderr if run.returncode else ""

    def change(self, module, options, after):
        plain = self.run(module)
        if plain.returncode:
            return "is not a module\n" + module + plain.stderr
        run = self.run(module, *options)
        if run.returncode:
            return "does not run\n" + module + run.stderr
        expected = expectation(after)
        if message := self.matches(run.stdout, expected):
            return f"gives something else\n{message}{run.stdout}"
        if not self.matches(plain.stdout, expected):
            return "changes nothing"
        return ""

    def refusal(self, module, options, error):
        run = self.run(module, *options)
        if run.returncode == 0:
            return "is not refused"
        if f"error: {error}" not in re.sub(r"error: '[\w.]+' op ", "error: ", run.stderr):
            return f"is refused for something else\n{module}{run.stderr}"
        return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page")
    parser.add_argument("--templates", required=True)
    parser.add_argument("--tool", default="fcdp-opt", help="a command, with its options")
    parser.add_argument("--filecheck", default="FileCheck")
    arguments = parser.parse_args()
    templates = read_templates(arguments.templates)
    checker = Checker(arguments.tool, arguments.filecheck)
    with open(arguments.page) as file:
        page = file.read()

    starts = list(PASS.finditer(page))
    ends = [match.start() for match in starts[1:]] + [len(page)]
    failures = count = 0
    for match, end in zip(starts, ends):
        name, text = match.group(1), page[match.end() : end]
        template = templates.get(name, ["module {"])
        messages = []
        for before, command, after in CHANGE.findall(text):
            messages.append(checker.change(complete(before, template), shlex.split("--" + command), after))
        for command, refused in REFUSAL.findall(text):
            error = ERROR.search(refused).group(1)
            fragment = ERROR.sub("", refused)
            messages.append(checker.refusal(complete(fragment, template), shlex.split("--" + command), error))
        count += len(messages)
        for message in messages or ["is missing"]:
            if message:
                failures += 1
                print(f"{arguments.page}: error: the example of {name} {message}")
    print(f"{count} examples of {len(starts)} passes, {failures} errors")
    return 1 if failures or not starts else 0


if __name__ == "__main__":
    sys.exit(main())
