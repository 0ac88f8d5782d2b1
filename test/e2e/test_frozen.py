# SPDX-License-Identifier: Apache-2.0
"""A frozen base with LoRA: what is frozen crosses the network in the first step only."""

import pytest

from closed_forms import buckets
from harness import Config, Workshop, assert_bit_equal, read_plan, relative_error

STEPS = 4


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_only_what_is_trained_crosses_after_the_first_step(workshop: Workshop, micro_batches: int) -> None:
    config = Config("peft_lora", micro_batches=micro_batches)
    layout = buckets(read_plan(workshop.step(config)))
    trained = sum(bucket.gather_bytes for bucket in layout if bucket.trainable)
    frozen = sum(bucket.gather_bytes for bucket in layout if not bucket.trainable)
    sent = [step.inter for step in workshop.run(config, STEPS).traffic]
    # A = 1/2: each trained bucket is gathered once and reduced once per micro-batch.
    assert sent[1:] == [(trained + micro_batches * trained) // 2] * (STEPS - 1)
    assert sent[0] == sent[1] + frozen // 2
    if micro_batches == 1:
        assert sent[1] <= 2 * trained // 2


def test_micro_batches(workshop: Workshop) -> None:
    config = Config("peft_lora", micro_batches=3)
    run = workshop.run(config, STEPS)
    assert relative_error(run.losses, workshop.reference(config, STEPS).losses) <= 1e-5
    assert_bit_equal(run, workshop.run(Config("peft_lora", strategy="zero3", micro_batches=3), STEPS))
