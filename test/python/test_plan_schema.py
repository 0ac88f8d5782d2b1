# SPDX-License-Identifier: Apache-2.0
"""cmake/FcdpPlanUnions.cmake makes visitors of the plan's schema, and refuses schemas that it does not understand."""

import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = (ROOT / "runtime/plan/Plan.fbs").read_text()


def generate(folder, schema):
    path = folder / "Schema.fbs"
    path.write_text(schema)
    command = ["cmake", f"-DSCHEMA={path}", f"-DOUT={folder}", "-P", ROOT / "cmake/FcdpPlanUnions.cmake"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60)
    return (folder / "plan/PlanUnions.h").read_text() if done.returncode == 0 else " ".join(done.stderr.split())


def test_every_kind_is_visited_once(tmp_path):
    header = generate(tmp_path, SCHEMA)
    for union in ("OpBody", "Optimizer"):
        body = re.sub(r"//.*", "", re.search(rf"union {union} {{(.*?)}}", SCHEMA, re.S)[1])
        kinds = re.findall(r"(\w+):", body)
        assert len(kinds) > 5
        assert re.findall(rf"case {union}::(\w+):", header) == [*kinds, "NONE"]


def test_optimizers_have_the_states_of_the_compilers_records():
    optimizers = json.loads((ROOT / "python/fcdp/optimizer_records.json").read_text())["optimizers"]
    states = re.findall(r'^table (\w+) \(\s*states: "([^"]*)"', SCHEMA, re.M)
    assert {table.lower(): roles.split(", ") for table, roles in states} == {
        optimizer["name"]: optimizer["states"] for optimizer in optimizers
    }


@pytest.mark.parametrize(
    "right, wrong, message",
    [
        ("  record: Event,", "  Event,", "expected members 'kind: Table' in union OpBody"),
        ('table Lion (states: "exp_avg", rate_sized)', "table Lion", "expected the attribute 'states' of table Lion"),
        ('table Lion (states: "exp_avg", ', "table Lion (", "expected the attribute 'states' of table Lion"),
    ],
)
def test_a_schema_that_is_not_understood_is_refused(tmp_path, right, wrong, message):
    assert right in SCHEMA
    assert message in generate(tmp_path, SCHEMA.replace(right, wrong))
