# SPDX-License-Identifier: Apache-2.0
"""Values that the backward pass computes again: the same bits, the same bytes, less memory."""

import re
from dataclasses import replace

import pytest

from harness import Config, Run, ToolError, Workshop, assert_bit_equal, read_plan

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
    """Returns the peak of the last step, because the first one is recorded."""
    return run.steps[-1]["device_peak_bytes"]


def results(workshop: Workshop, config: Config) -> int:
    """Bytes of operators' results at once. In models as small as these, gradients may make the peak."""
    return read_plan(workshop.step(config))["planned"]["pool_bytes"]


@pytest.mark.parametrize("config", CASES, ids=lambda config: config.name)
def test_same_bits_and_bytes_in_less_memory(workshop: Workshop, config: Config) -> None:
    recomputing = replace(config, remat="unit")
    kept, again = workshop.run(config, STEPS), workshop.run(recomputing, STEPS)
    assert_bit_equal(kept, again)
    assert kept.traffic == again.traffic
    assert results(workshop, recomputing) < results(workshop, config)
    assert peak(again) < 1.001 * peak(kept)  # where gradients make the peak, they may be packed a little worse


def test_checkpoints_of_the_model(workshop: Workshop) -> None:
    """torch.utils.checkpoint around each block: the bits of the model without, in the memory of units computed
    again."""
    plain, asked = Config("gpt"), Config("gpt_checkpointed")
    kept, again = workshop.run(plain, STEPS), workshop.run(asked, STEPS)
    assert_bit_equal(kept, again)
    assert kept.traffic == again.traffic
    units = results(workshop, replace(plain, remat="unit"))
    assert units <= results(workshop, asked) < results(workshop, plain)


def least(workshop: Workshop, config: Config) -> int:
    """The least number of bytes that can be kept, as the refusal of none names it."""
    with pytest.raises(ToolError) as refused:
        workshop.step(replace(config, remat="0"))
    return int(re.search(r"remat: expected at least (\d+) bytes", str(refused.value))[1])


def test_budget(workshop: Workshop) -> None:
    """More bytes to keep, more memory: from the least, which is all that units can do, to no need to choose."""
    config = Config("gpt")
    lowest = least(workshop, config)
    configs = [replace(config, remat=str(budget)) for budget in (lowest, 2 * lowest, 100 * lowest)]
    taken = [results(workshop, one) for one in configs]
    assert taken[0] == results(workshop, replace(config, remat="unit"))
    assert taken[0] < taken[1] < taken[2] == results(workshop, config)
    for one in configs:
        assert_bit_equal(workshop.run(one, STEPS), workshop.run(config, STEPS))
