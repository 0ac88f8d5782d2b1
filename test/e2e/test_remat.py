# SPDX-License-Identifier: Apache-2.0
"""Values that the backward pass computes again: the same bits, the same bytes, less memory."""

import re
from dataclasses import replace

import pytest

from harness import Config, Run, ToolError, Workshop, assert_bit_equal

STEPS = 3
# Beside transformers: masks that are drawn at random, statistics that the step changes, frozen parameters, parameters
# that are gathered in bfloat16 and tied ones; several micro-batches.
CASES = [
    Config("gpt", strategy="zero3"),
    Config("gpt", micro_batches=3),
    Config("gpt_tied"),
    Config("gpt_autocast", strategy="zero3"),
    Config("hf_llama"),
    Config("hf_gpt2_dropout", strategy="zero3"),
    Config("peft_lora"),
    Config("peft_lora", strategy="zero3"),
    Config("residual_bn"),
]


def peak(run: Run) -> int:
    return max(step["device_peak_bytes"] for step in run.steps)


@pytest.mark.parametrize("config", CASES, ids=lambda config: config.name)
def test_same_bits_and_bytes_in_less_memory(workshop: Workshop, config: Config) -> None:
    kept, again = workshop.run(config, STEPS), workshop.run(replace(config, remat="unit"), STEPS)
    assert_bit_equal(kept, again)
    assert kept.traffic == again.traffic
    assert peak(again) < peak(kept)


def least(workshop: Workshop, config: Config) -> int:
    """The least number of bytes that can be kept, as the refusal of none names it."""
    with pytest.raises(ToolError) as refused:
        workshop.step(replace(config, remat="0"))
    return int(re.search(r"remat: expected at least (\d+) bytes", str(refused.value))[1])


def test_budget(workshop: Workshop) -> None:
    """More bytes to keep, more memory: from the least, which is all that units can do, to no need to choose."""
    config = Config("gpt")
    lowest = least(workshop, config)
    runs = [workshop.run(replace(config, remat=str(budget)), STEPS) for budget in (lowest, 2 * lowest, 100 * lowest)]
    assert peak(runs[0]) == peak(workshop.run(replace(config, remat="unit"), STEPS))
    assert peak(runs[0]) < peak(runs[1]) < peak(runs[2]) == peak(workshop.run(config, STEPS))
    for run in runs:
        assert_bit_equal(run, workshop.run(config, STEPS))
