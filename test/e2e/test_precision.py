# SPDX-License-Identifier: Apache-2.0
"""Each recipe of docs/precision.md trains as the policy of FSDP2 that it replaces, on a model with a table in
float32."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness import Config, rank_environments, relative_error
from python_ranks import run_ranks

pytestmark = pytest.mark.xdist_group("precision")

# By recipe: of losses, and of the difference of parameters to what they moved. FSDP2 sums in the type of reductions.
TOLERANCES = {
    "bf16-f32": (5e-3, 0.05),
    "bf16": (1e-2, 0.2),
    "none": (1e-5, 1e-4),
    "reduce-bf16": (2e-3, 0.1),
    "reduce-f16": (2e-4, 0.02),
    "output": (5e-3, 0.05),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("precision")
    run_ranks(Path(__file__).with_name("precision_script.py"), [folder], rank_environments(Config("", 1, 2)), timeout=600)
    return folder


def read(trained: Path, name: str) -> dict[str, Any]:
    return json.loads((trained / f"{name}.json").read_text())


@pytest.mark.parametrize("name", TOLERANCES)
def test_is_what_fsdp2_trains(trained: Path, name: str) -> None:
    found, (loss, parameters) = read(trained, name), TOLERANCES[name]
    assert relative_error(found["fcdp"], found["fsdp2"]) <= loss, found
    assert found["difference"] <= parameters * found["moved"], found


def test_a_rounded_table_is_noticed(trained: Path) -> None:
    """The model of model.to(torch.bfloat16) is another one."""
    found, (loss, parameters) = read(trained, "rounded-table"), TOLERANCES["bf16-f32"]
    assert found["difference"] > 3 * parameters * found["moved"], found
    assert relative_error(found["fcdp"], found["fsdp2"]) > loss, found
