# SPDX-License-Identifier: Apache-2.0
"""When a job plans a step by the times of earlier jobs."""

import json
from pathlib import Path
from typing import Any

import pytest

import fcdp.loop.history as history_module
from fcdp.loop.history import History, StepWatch, is_profile, should_plan_by_profile

FIRST, LATER = "first.so", "later.so"


@pytest.fixture
def history(tmp_path: Path) -> History:
    made = History(tmp_path / "history")
    made.folder.mkdir()
    made.profile.write_text('{"operators": []}')
    return made


def decide(history: History, monkeypatch: pytest.MonkeyPatch, explained: float | None, promised: float | None) -> bool:
    """Returns the decision for these predictions, by the profile, of the first plan and of one by the profile."""
    monkeypatch.setattr(history_module, "predict_planned", lambda archive, options, profile: explained)
    monkeypatch.setattr(history_module, "_predict", lambda program, options: promised)
    return should_plan_by_profile(history, FIRST, LATER, Path("step.pt2"), ["--strategy=auto"])


def test_is_a_profile(tmp_path: Path) -> None:
    profile = tmp_path / "p.json"
    assert not is_profile(profile)
    for text, answer in (("", False), ("{", False), ("[]", False), ('{"operators": []}', True)):
        profile.write_text(text)
        assert is_profile(profile) == answer


def test_a_profile_must_explain_its_own_steps(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not decide(history, monkeypatch, 1.0, 0.5), "no step was timed"
    history.keep_seconds(FIRST, 1.0)
    assert decide(history, monkeypatch, 1.09, 0.9)
    assert not decide(history, monkeypatch, 1.2, 0.9) and not decide(history, monkeypatch, 0.8, 0.7)
    assert not decide(history, monkeypatch, None, 0.9)


def test_a_profile_must_promise_enough(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    history.keep_seconds(FIRST, 1.0)
    assert not decide(history, monkeypatch, 1.0, 0.98) and not decide(history, monkeypatch, 1.0, None)
    assert decide(history, monkeypatch, 1.0, 0.96)


@pytest.mark.parametrize(("later", "answer"), [(0.9, True), (1.9, False)])
def test_measured_steps_decide(history: History, monkeypatch: pytest.MonkeyPatch, later: float, answer: bool) -> None:
    """Whatever is predicted."""
    history.keep_seconds(FIRST, 1.0)
    history.keep_seconds(LATER, later)
    assert decide(history, monkeypatch, 5.0, 9.0) == answer


@pytest.mark.parametrize("text", ["", "[1]", '{"first.so": "x"}', "\xff"])
def test_damaged_seconds_count_as_none(history: History, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    history.keep_seconds(FIRST, 1.0)
    (history.folder / "seconds.json").write_bytes(text.encode("latin-1"))
    assert not decide(history, monkeypatch, 1.0, 0.5)


class Session:
    """Has the profile after the step with this number."""

    def __init__(self, profiled: int = 0):
        self.steps, self.profiled = 0, profiled

    def take_profile(self) -> str | None:
        return "the profile" if self.steps == self.profiled else None

    def run(self, watch: StepWatch, *seconds: float) -> None:
        for each in seconds:
            self.steps += 1
            watch.after_step(self, each)


def seconds_of(history: History) -> dict[str, Any]:
    path = history.folder / "seconds.json"
    return json.loads(path.read_text()) if path.exists() else {}


def test_times_the_steps_after_the_profiled_ones(tmp_path: Path) -> None:
    history = History(tmp_path / "history")
    watch, session = StepWatch(history.profile, history, FIRST), Session(6)
    session.run(watch, 9, 8, 8, 8, 8, 8)
    assert history.profile.read_text() == "the profile"
    session.run(watch, 1, 2, 3, 1, 2, 3, 1, 2, 3)
    assert seconds_of(history) == {}
    session.run(watch, 2, 7, 7, 7)
    assert seconds_of(history) == {FIRST: 2}
    watch.finish()
    assert seconds_of(history) == {FIRST: 2}


def test_a_short_job_keeps_what_it_has(tmp_path: Path) -> None:
    history = History(tmp_path / "history")
    for plan, seconds in ((FIRST, [9, 1, 2]), (LATER, [9, 1, 2, 3])):
        watch = StepWatch(None, history, plan)
        Session().run(watch, *seconds)
        watch.finish()
    assert seconds_of(history) == {LATER: 2}


def test_a_job_without_a_history_writes_its_profile_only(tmp_path: Path) -> None:
    profile = tmp_path / "mine.json"
    watch = StepWatch(profile)
    Session(6).run(watch, *[1] * 20)
    watch.finish()
    assert profile.read_text() == "the profile" and list(tmp_path.iterdir()) == [profile]


def test_nothing_stops_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "history").write_text("a file")
    history = History(tmp_path / "history")
    Session(6).run(StepWatch(history.profile, history, FIRST), *[1] * 20)
