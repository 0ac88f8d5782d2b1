# SPDX-License-Identifier: Apache-2.0
"""Plans of `auto` run like any preset: with the same numbers, and the bytes and the memory of the plan."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from closed_forms import Traffic
from harness import Config, Workshop, assert_bit_equal, compile_command, read_plan

STEPS = 3
CASES = [
    Config("gpt", strategy="auto", cluster="workstations"),
    Config("gpt", strategy="auto", cluster="h100", micro_batches=3, accumulate="sharded"),
    Config("gpt_bf16", strategy="auto", cluster="workstations", micro_batches=2, accumulate="node"),
    # Flat reductions, which are faster there, have other bits.
    Config("peft_lora", strategy="auto", cluster="h100-tcp", micro_batches=2, accumulate="sharded", collectives="two-level"),
]


def identify(config: Config) -> str:
    return f"{config.model}-{config.cluster}-k{config.micro_batches}"


def planned(workshop: Workshop, config: Config, out: Path) -> tuple[str, int]:
    """Returns the output of fcdp-compile, and the device bytes in it."""
    command = compile_command(config, workshop.model(config.model).archive, out)
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return text, int(re.search(r"memory +device (\d+) bytes", text)[1])


def within_a_budget(workshop: Workshop, config: Config, folder: Path) -> Config:
    """The budget is between the needs of zero3 and zero2."""
    least, most = (
        planned(workshop, replace(config, strategy=name), folder / "step.so")[1] for name in ("zero3", "zero2")
    )
    return replace(config, device_memory=(least + most) // 2)


@pytest.fixture(params=CASES, ids=identify)
def config(request: pytest.FixtureRequest, workshop: Workshop, tmp_path: Path) -> Config:
    return within_a_budget(workshop, request.param, tmp_path)


def test_bit_equal_to_a_preset(workshop: Workshop, config: Config) -> None:
    preset = replace(config, strategy="zero3", accumulate=config.accumulate or "sharded", cluster="", device_memory=0)
    assert_bit_equal(workshop.run(config, STEPS), workshop.run(preset, STEPS))


def test_bytes_and_memory_are_the_planned(workshop: Workshop, config: Config, tmp_path: Path) -> None:
    text, device = planned(workshop, config, tmp_path / "step.so")
    assert device <= config.device_memory
    links = re.search(r"step +(\d+) bytes.* between nodes, (\d+) bytes.*\n +(\d+) bytes.* to host memory, (\d+) bytes", text)
    expected = Traffic(*map(int, (links[1], links[2], links[4], links[3])))
    assert workshop.run(config, STEPS).traffic[1:] == [expected] * (STEPS - 1)


@pytest.mark.parametrize(
    "config",
    [
        Config("gpt", strategy="auto", cluster="h100"),
        Config("gpt", strategy="auto", cluster="h100", nodes=3, local=1, micro_batches=2, accumulate="sharded"),
        Config("gpt_bf16", strategy="auto", cluster="cpu"),
    ],
    ids=identify,
)
def test_merged_buckets_change_no_bits(workshop: Workshop, config: Config, tmp_path: Path) -> None:
    """If latencies matter, buckets of several units are chosen."""
    preset = replace(config, strategy="zero3", cluster="", collectives="")
    counts = []
    for one in (config, preset):
        planned(workshop, one, tmp_path / "step.so")
        counts.append(len(read_plan(tmp_path / "step.so")["buckets"]))
    assert counts[0] < counts[1]
    assert_bit_equal(workshop.run(config, STEPS), workshop.run(preset, STEPS))
