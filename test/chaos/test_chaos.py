# SPDX-License-Identifier: Apache-2.0
"""The short form of the suite: each kind of accident once, the same in every run. `run.py` has the long form."""

from pathlib import Path

import pytest

from tries import ACCIDENTS, Workshop, attempt, undisturbed


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("chaos"))


@pytest.fixture(scope="session")
def losses(workshop: Workshop) -> list[float]:
    return undisturbed(workshop, workshop.folder / "undisturbed")


@pytest.mark.parametrize("kind", ACCIDENTS)
def test_accident(workshop: Workshop, losses: list[float], tmp_path: Path, kind: str) -> None:
    assert attempt(workshop, tmp_path / "try", kind, 1, losses) == ""
