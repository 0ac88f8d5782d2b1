# SPDX-License-Identifier: Apache-2.0
"""A type of namespace fcdp has one meaning: the compiler and the runtime do not use one name for two types."""

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMPILER = ("include/fcdp", "lib", "dialects")
RUNTIME = ("runtime", "tools/probe", "tools/fcdp-run", "tools/fcdp-probe")
BUILD = Path(os.environ.get("FCDP_HOME", ROOT / "build"))
# The headers that TableGen makes of the dialects, and FlatBuffers of the plan's schema.
MADE = {"compiler": ("dialects", "*.inc"), "runtime": ("generated", "*.h")}
TOKEN = re.compile(
    r"namespace\s+(?P<namespace>[\w:]*)\s*\{"
    r"|\b(?:class|struct|enum)\s+(?:class\s+)?(?P<type>\w+)[^;{}()]*\{"
    r"|(?P<open>\{)|(?P<close>\})"
)


def types(text):
    """The qualified names of the types that a header defines, without nested ones."""
    blocks = []
    for token in TOKEN.finditer(re.sub(r"//[^\n]*", "", text)):
        if token["close"]:
            if blocks:
                blocks.pop()
            continue
        if token["type"] and None not in blocks:
            yield "::".join([*blocks, token["type"]])
        blocks.append(token["namespace"])


def defined(headers):
    return {name: header for header in sorted(headers) for name in types(header.read_text())}


def written(folders):
    return [header for folder in folders for header in (ROOT / folder).rglob("*.h")]


def made(side):
    folder, pattern = MADE[side]
    return list((BUILD / folder).rglob(pattern))


def test_types_of_a_header():
    header = "namespace a {\nstruct B {\n  struct Nested {};\n};\nclass Declared;\nenum class C { D };\n} // namespace a\n"
    assert list(types(header)) == ["a::B", "a::C"]


def test_compiler_and_runtime_share_no_type_name():
    compiler = defined(written(COMPILER) + made("compiler"))
    runtime = defined(written(RUNTIME) + made("runtime"))
    assert len(compiler) > 100 and len(runtime) > 100
    if BUILD.exists():
        assert {"fcdp::Axis", "fcdp::StateRole"} <= compiler.keys() and "fcdp::plan::Axis" in runtime
    both = [f"{name}: {compiler[name]} and {runtime[name]}" for name in sorted(compiler.keys() & runtime.keys())]
    assert both == []
