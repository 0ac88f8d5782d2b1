# SPDX-License-Identifier: Apache-2.0
"""The files that GitHub reads are well-formed, and name what is there."""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
# GitHub's schema of forms.
TYPES = {"markdown", "input", "textarea", "dropdown", "checkboxes"}


def read(path: Path) -> dict:
    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms_ask_for_the_environment(path: Path) -> None:
    form = read(path)
    assert form["name"] and form["description"]
    ids = [field["id"] for field in form["body"]]
    assert len(ids) == len(set(ids))
    for field in form["body"]:
        assert field["type"] in TYPES and field["attributes"]["label"]
    asked = [field for field in form["body"] if "fcdp-run --report-environment" in field["attributes"]["label"]]
    assert len(asked) == 1 and asked[0]["validations"]["required"]


def test_there_are_forms() -> None:
    assert {path.stem for path in FORMS} == {"bug", "model"}


def test_the_workflow_runs_what_ci_runs() -> None:
    workflow = read(ROOT / ".github/workflows/ci.yml")
    # YAML 1.1 reads "on" as a boolean.
    assert set(workflow[True]) == {"push", "pull_request"}
    job = workflow["jobs"]["test"]
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands[-1] == ".ci/run" and (ROOT / ".ci/run").exists()
    assert job["timeout-minutes"] <= 90 and job["container"]["image"] == "debian:12"
