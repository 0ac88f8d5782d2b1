# SPDX-License-Identifier: Apache-2.0
"""benchmarks/simulator: that its steps are those of an export, and that it fails where a goal is missed."""

import re
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "simulator"))

import judge  # noqa: E402
import paper  # noqa: E402
import validate  # noqa: E402
from gpt import Shape  # noqa: E402
from steps import BATCH, SEQUENCE, Steps, export, reshape  # noqa: E402

TOOLS = ROOT / "build" / "bin"


def tiny(**options) -> Shape:
    return Shape("tiny", 64, 2, 2, vocabulary=512, **options)


def without_places(text: str) -> str:
    return re.sub(r'fcdp\.archive = "[^"]*"|loc\(.*', "", text)


@pytest.mark.parametrize("options", [{}, {"lora": 4, "dtype": torch.bfloat16}, {"eager": True}])
def test_reshaped_is_as_exported(options):
    exported = export(tiny(**options), 3, 128, TOOLS)
    reshaped = reshape(export(tiny(**options), BATCH, SEQUENCE, TOOLS), 3, 128)
    assert without_places(reshaped) == without_places(exported)


def test_sizes_that_the_primes_divide_are_refused(tmp_path):
    with pytest.raises(ValueError, match="tiny: expected sizes that neither 131 nor 1031 divides, got 262"):
        Steps(tmp_path, TOOLS).write(Shape("tiny", 2 * BATCH, 2, 2, vocabulary=512), 1, 1, tmp_path / "step.mlir")


def test_eager_attention_keeps_its_scores():
    text = export(tiny(eager=True), BATCH, SEQUENCE, TOOLS)
    assert "softmax" in text and "scaled_dot_product" not in text and f"tensor<{BATCH}x2x{SEQUENCE}x{SEQUENCE}xbf16>" in text


def test_what_is_fitted_gives_what_was_published():
    model = paper.Footprint(capacity=48e9, parameters=16_000_000_000, sequence=8e8)
    constants = paper.fit(model)
    for strategy, published in paper.MEMORY.items():
        assert model.total(strategy, paper.MEMORY_BATCH, *constants) == pytest.approx(published * 2**30)
    # More than the rest of the device, and as much as that.
    rest = model.capacity - model.total("zero3", 0, 1, 0)
    assert model.largest("zero3", growth=(rest + 1) / model.sequence, extra=0) == 0
    assert model.largest("zero3", growth=rest / 4 / model.sequence, extra=0) == 4 * 16


@pytest.mark.parametrize("published, status", [(104.0, 0), (150.0, 1)])
def test_status_is_that_of_the_goals(published, status, capsys):
    # With a single source nothing is fitted, so its predictions stay as they are.
    result = judge.Result("tiny", "run", judge.RATE, published, 100.0)
    part = judge.judge_goals(judge.Judgement([result]), ["tiny"])
    assert validate.summarize([part]) == status
    output = capsys.readouterr()
    assert f"0 rows, {0 if status else 2} of 2 goals" in output.out
    assert ("expected median error of tokens/s/GPU at most 10%, got 33.3%" in output.err) == bool(status)
