# SPDX-License-Identifier: Apache-2.0
"""Which values a step takes, on a session that notes what is set."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fcdp.errors import StepError
from fcdp.loop.step import Step

STATES = [
    (["w", "tied.w"], "value", [2], True),
    (["w", "tied.w"], "exp_avg", [2], True),
    (["running"], "value", [2], True),
    (["table"], "value", [2], False),
]


class NotingSession:
    def __init__(self) -> None:
        self.values: dict[str, torch.Tensor] = {}
        self.failures: list[str] = []

    def states(self) -> list[Any]:
        return STATES

    def set_state(self, name: str, role: str, tensor: torch.Tensor) -> None:
        self.values[name] = tensor

    def fail(self, message: str) -> None:
        self.failures.append(message)

    def close(self) -> None:
        pass


@pytest.fixture
def session() -> NotingSession:
    return NotingSession()


@pytest.fixture
def step(session: NotingSession) -> Step:
    launch = SimpleNamespace(rank=0, num_ranks=1)
    return Step(session, None, SimpleNamespace(launch=launch))  # type: ignore[arg-type]


def values(*names: str) -> dict[str, torch.Tensor]:
    return {name: torch.full((2,), float(len(name))) for name in names}


def test_all_that_a_state_dict_has(session: NotingSession, step: Step) -> None:
    step.load_state_dict(values("w", "tied.w", "running"))
    assert set(session.values) == {"w", "running"}


def test_a_tied_parameter_under_another_name(session: NotingSession, step: Step) -> None:
    given = values("tied.w", "running", "table")
    step.load_state_dict(given)
    assert session.values["w"] is given["tied.w"]
    assert session.values["table"] is given["table"]


@pytest.mark.parametrize("missing", ["w", "running"])
def test_a_value_that_is_missing(session: NotingSession, step: Step, missing: str) -> None:
    given = values("w", "running", "table")
    del given[missing]
    with pytest.raises(StepError, match=missing) as raised:
        step.load_state_dict(given)
    assert raised.value.code == "misuse"
    assert len(session.failures) == 1 and not session.values


def test_a_value_of_nothing(session: NotingSession, step: Step) -> None:
    with pytest.raises(StepError, match="other"):
        step.load_state_dict(values("w", "running", "other"))
    assert not session.values
