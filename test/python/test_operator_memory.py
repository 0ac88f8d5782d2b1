# SPDX-License-Identifier: Apache-2.0
"""Operators whose memory depends on values compute the right results in steps that replay the memory of a first one.

These were found by operator_walk.py, which calls all operators, and takes minutes.
"""

import warnings

import pytest

from operator_walk import check, load_pool, recorded_calls

# Those whose allocations depend on values, by the sample of PyTorch's tests that calls them.
DIFFERING = {
    "masked_scatter": "aten.masked_scatter.default",
    "matrix_exp": "aten.linalg_matrix_exp.default",
}
# One whose do not, which shows that a difference is not found everywhere.
SAME = {"nn.functional.softmax": "aten._softmax.default"}


@pytest.fixture(scope="module", autouse=True)
def pool() -> None:
    load_pool()


@pytest.mark.parametrize(("sample", "name"), [*DIFFERING.items(), *SAME.items()])
def test_results_do_not_depend_on_the_recorded_step(sample: str, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = recorded_calls({name}, {sample})[name]
    outcomes = [check(call) for call in calls]
    assert not [text for outcome in outcomes for text in outcome.wrong]
    assert all(outcome.steps > 5 for outcome in outcomes)
    assert any(outcome.differs for outcome in outcomes) == (sample in DIFFERING)
