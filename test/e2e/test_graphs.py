# SPDX-License-Identifier: Apache-2.0
"""--cuda-graphs, as far as a machine without a GPU can tell. test/runtime/operators tests the results of graphs."""

from pathlib import Path

import pytest

from harness import BIN, Config, Run, ToolError, Workshop, assert_bit_equal, read_plan, read_log, run_command, tool

CONFIG = Config("gpt", micro_batches=2)


def calls(step: Path) -> list[dict]:
    return [op for op in read_plan(step)["ops"] if op["kind"] == "aten_call"]


def test_steps_for_gpus_say_what_may_be_in_one(workshop: Workshop, tmp_path: Path) -> None:
    step = tmp_path / "step.so"
    tool(BIN / "fcdp-compile", workshop.model("gpt").archive, "--target=cuda", "-o", step)
    others = {call["callee"] for call in calls(step) if not call["replayable"]}
    assert others == {"aten::_scaled_dot_product_efficient_attention"}
    assert not any(call["replayable"] for call in calls(workshop.step(CONFIG)))


def test_on_the_cpu_there_are_none(workshop: Workshop, tmp_path: Path) -> None:
    model, files = workshop.model("gpt"), (tmp_path / "log.jsonl", tmp_path / "out.safetensors")
    options = (f"--json={files[0]}", f"--params-out={files[1]}", "--nodes=2", "--ranks-per-node=2", "--cuda-graphs=auto")
    tool(*run_command(workshop.step(CONFIG), model.archive, model.inputs, 3, *options))
    assert_bit_equal(Run(read_log(files[0]), files[1]), workshop.run(CONFIG, 3))


def test_refuses_what_is_no_choice(workshop: Workshop) -> None:
    model = workshop.model("gpt")
    with pytest.raises(ToolError, match="--cuda-graphs: some not in {auto,off}"):
        tool(*run_command(workshop.step(CONFIG), model.archive, model.inputs, 3, "--cuda-graphs=some"))
