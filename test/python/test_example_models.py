# SPDX-License-Identifier: Apache-2.0
"""The scripts that the end-to-end tests and the example run."""

import json
import subprocess
import sys
from pathlib import Path

import archive
import numpy as np
import pytest
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parents[2]


def run(script: str, *args: object) -> str:
    command = [sys.executable, str(ROOT / script), *map(str, args)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_export_and_reference(tmp_path):
    run("test/e2e/models/make_models.py", "tiny_params", "--out", tmp_path)
    described = json.loads((tmp_path / "tiny_params.json").read_text())
    assert list(described["inputs"]) == archive.user_inputs(tmp_path / "tiny_params.pt2")
    assert np.load(tmp_path / described["inputs"]["x"]["file"]).shape == (24, 4, 8)

    losses, params = tmp_path / "losses.json", tmp_path / "params.safetensors"
    arguments = ["tiny_params", "--models", tmp_path, "--world", 2, "--steps", 3, "--optimizer", "sgd,lr=0.1"]
    run("test/e2e/models/reference.py", *arguments, "--out", losses, "--params", params)
    assert len(json.loads(losses.read_text())["losses"]) == 3
    assert {name: list(p.shape) for name, p in load_file(params).items()} == {
        "scale": [],
        "shift": [1],
        "fc.weight": [3, 8],
        "fc.bias": [3],
    }


@pytest.mark.skipif(not Path("/usr/share/common-licenses").is_dir(), reason="its text is Debian's")
def test_gpt_example(tmp_path):
    run("examples/gpt/export.py", "--out", tmp_path, "--layers", 1, "--heads", 2, "--width", 16, "--batch", 1)
    vocabulary = json.loads((tmp_path / "vocabulary.json").read_text())
    tokens = np.fromfile(tmp_path / "tokens.u16", dtype="<u2")
    assert len(tokens) > 100_000 and tokens.max() == len(vocabulary) - 1
    assert archive.user_inputs(tmp_path / "step.pt2") == ["ids", "labels"]
