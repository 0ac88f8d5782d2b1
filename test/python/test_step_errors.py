# SPDX-License-Identifier: Apache-2.0
"""A step raises the errors of its session."""

import pytest

from fcdp.errors import StepError
from fcdp.loop.step import Step


class Session:
    """Refuses all that ranks agree on."""

    def __init__(self, message: str):
        self.message = message

    def agree(self, problem: str, digest: str) -> None:
        raise RuntimeError(self.message)


def opened(message: str) -> Step:
    step = Step.__new__(Step)
    step._session, step._states, step.num_ranks = Session(message), [], 1
    return step


def test_a_call_that_meets_another_threads_leaves_the_step_of_use() -> None:
    step = opened("busy: another thread is in a call of this session, which takes one call at a time")
    with pytest.raises(StepError, match="another thread"):
        step._agree("", {})
    assert step._open() is step._session


def test_a_load_that_fails_ends_the_step() -> None:
    step = opened("bad weights: no 'a'")
    with pytest.raises(StepError, match="no 'a'"):
        step._agree("no 'a'", {})
    with pytest.raises(StepError, match="the step is closed"):
        step._open()
