# SPDX-License-Identifier: Apache-2.0
"""A long export reports its progress on standard error, and leaves the garbage collector as it was."""

import gc
import re
import threading
import time
from pathlib import Path

import pytest

import fcdp
from fcdp import progress
from fcdp.garbage import without_collections
from fcdp.progress import hidden_progress, shown_progress, start_stage
from small_models import Tiny, tiny_inputs

EXPORT_STAGES = [
    "running the model in eager PyTorch",
    "watching passes of the model",
    "tracing the forward pass",
    "tracing the backward pass",
    "writing the archive",
    "comparing the archive with eager PyTorch",
]


def printed(text: str) -> list[str]:
    """Returns the stages in what was printed, which is nothing else."""
    lines = [re.fullmatch(r"fcdp: (.*) \.\.\. \(\d+ s\)", line) for line in text.splitlines()]
    assert all(lines), text
    return [line[1] for line in lines if line]


def wait_for_the_timer() -> None:
    deadline = time.monotonic() + 60
    while any(isinstance(thread, threading.Timer) for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_short_export_says_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 600)
    fcdp.export(Tiny(), tiny_inputs(), tmp_path / "step.pt2")
    assert printed(capfd.readouterr().err) == []
    wait_for_the_timer()


def test_a_long_export_says_its_stages(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0)
    with shown_progress():
        start_stage("one")
        wait_for_the_timer()
        with shown_progress():
            start_stage("two")
        with hidden_progress():
            start_stage("a part of two")
        start_stage("three")
    start_stage("four")
    # The timer may come before the first stage.
    assert printed(capfd.readouterr().err)[-3:] == ["one", "two", "three"]


def test_the_stages_of_an_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages: list[str] = []
    monkeypatch.setattr(progress._Progress, "start", lambda self, stage: stages.append(stage))
    fcdp.export(Tiny(), tiny_inputs(), tmp_path / "step.pt2")
    assert stages == EXPORT_STAGES


def test_an_export_that_fails_ends_its_timer(tmp_path: Path) -> None:
    with pytest.raises(fcdp.ExportError):
        fcdp.export(Tiny(), (), tmp_path / "step.pt2")
    wait_for_the_timer()


@pytest.mark.parametrize("is_enabled", [True, False])
def test_collections_go_on_as_before(is_enabled: bool) -> None:
    was_enabled = gc.isenabled()
    (gc.enable if is_enabled else gc.disable)()
    try:
        with pytest.raises(ValueError), without_collections():
            assert not gc.isenabled()
            raise ValueError
        assert gc.isenabled() == is_enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
