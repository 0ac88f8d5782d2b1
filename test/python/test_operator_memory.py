# SPDX-License-Identifier: Apache-2.0
"""Operators whose memory depends on values compute the right results in steps that replay the memory of a first one.

operator_walk.py calls all operators, and takes minutes.
"""

import warnings

import pytest

from operator_walk import Called, check, load_pool, recorded_calls

# By the sample of PyTorch's tests that calls them.
DIFFERING = {
    "masked_scatter": "aten.masked_scatter_backward.default",
    "matrix_exp": "aten.linalg_matrix_exp.default",
}
# Their allocations do not depend on values, which shows that a difference is not found everywhere.
SAME = {"softmax": "aten._softmax.default", "abs": "aten.abs.default"}


@pytest.fixture(scope="module")
def calls() -> dict[str, list[Called]]:
    load_pool()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        named = DIFFERING | SAME
        return recorded_calls(set(named.values()), set(named))


@pytest.mark.parametrize("name", [*DIFFERING.values(), *SAME.values()])
def test_results_do_not_depend_on_the_recorded_step(calls: dict[str, list[Called]], name: str) -> None:
    outcomes = [check(call) for call in calls[name]]
    assert not [text for outcome in outcomes for text in outcome.wrong]
    assert all(outcome.steps > 5 for outcome in outcomes)
    assert any(outcome.differs for outcome in outcomes) == (name in DIFFERING.values())
