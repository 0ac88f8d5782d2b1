# SPDX-License-Identifier: Apache-2.0
"""--deterministic, as far as a machine without a GPU can tell."""

from pathlib import Path

import pytest

from harness import Config, Run, ToolError, Workshop, assert_bit_equal, read_log, run_command, tool

CONFIG = Config("gpt", micro_batches=2)


def test_runs_are_bit_equal(workshop: Workshop, tmp_path: Path) -> None:
    model, files = workshop.model("gpt"), (tmp_path / "log.jsonl", tmp_path / "out.safetensors")
    options = (f"--json={files[0]}", f"--params-out={files[1]}", "--nodes=2", "--ranks-per-node=2", "--deterministic")
    tool(*run_command(workshop.step(CONFIG), model.archive, model.inputs, 3, *options))
    assert_bit_equal(Run(read_log(files[0]), files[1]), workshop.run(CONFIG, 3))


def test_nccl_sums_on_gpus_only(workshop: Workshop) -> None:
    model = workshop.model("gpt")
    command = run_command(workshop.step(CONFIG), model.archive, model.inputs, 1, "--reductions-by=nccl")
    with pytest.raises(ToolError, match="reductions by NCCL: expected a step that was compiled for 'cuda', got one for 'cpu'"):
        tool(*command)


def test_refuses_another_workspace_of_cublas(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    model = workshop.model("gpt")
    command = run_command(workshop.step(CONFIG), model.archive, model.inputs, 1, "--deterministic")
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0")
    with pytest.raises(ToolError, match="expected CUBLAS_WORKSPACE_CONFIG to be :4096:8 or :16:8, or not to be set, got"):
        tool(*command)
