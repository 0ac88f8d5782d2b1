# SPDX-License-Identifier: Apache-2.0
"""Gradients that operators write straight into their bucket."""

import re
from pathlib import Path

import pytest

from harness import Config, Workshop, assert_bit_equal, compile_command, tool

STEPS = 3


def device_bytes(text: str) -> int:
    return int(re.search(r"memory +device (\d+) bytes", text)[1])


@pytest.mark.parametrize(
    "config",
    [Config("gpt", strategy="zero2"), Config("gpt_bf16", strategy="zero1", micro_batches=2, accumulate="sharded")],
    ids=lambda config: config.name,
)
def test_copied_gradients_are_bit_equal_and_take_as_much(workshop: Workshop, config: Config, tmp_path: Path) -> None:
    archive = workshop.model(config.model).archive
    text = tool(*compile_command(config, archive, tmp_path / "step.so"), f"--dump-dir={tmp_path}")
    made = re.findall(r"in_place = \[(.+?)\]", (tmp_path / "3-planned.mlir").read_text())
    assert sum(len(names.split(", ")) for names in made) > 0

    scheduled = (tmp_path / "2-scheduled.mlir").read_text()
    copied, packs = re.subn(r"(fcdp\.pack @\S+?\(.*?\)) :", r"\1 {in_place = []} :", scheduled)
    assert packs > 0
    (tmp_path / "copied.mlir").write_text(copied)
    step = tmp_path / "copied.so"
    copying = tool(*compile_command(config, tmp_path / "copied.mlir", step))
    assert device_bytes(text) <= device_bytes(copying)

    in_place, copies = workshop.run(config, STEPS), workshop.run_object(step, config, STEPS, "copied-" + config.name)
    assert_bit_equal(in_place, copies)
