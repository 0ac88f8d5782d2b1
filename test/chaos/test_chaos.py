# SPDX-License-Identifier: Apache-2.0
"""The short form of the suite: each kind of accident once, the same in every run. `run.py` has the long form."""

from pathlib import Path

import pytest

import loops
import network
import no_files
from tries import ACCIDENTS, IMPOSSIBLE, Workshop, attempt, undisturbed

NO_NETWORK = network.why_impossible()


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("chaos"))


@pytest.fixture(scope="session")
def losses(workshop: Workshop) -> list[float]:
    return undisturbed(workshop, workshop.folder / "undisturbed")


@pytest.mark.parametrize("kind", ACCIDENTS)
def test_accident(workshop: Workshop, losses: list[float], tmp_path: Path, kind: str) -> None:
    if kind in IMPOSSIBLE:
        pytest.skip(IMPOSSIBLE[kind])
    assert attempt(workshop, tmp_path / "try", kind, 1, losses) == ""


@pytest.mark.parametrize("kind", no_files.KINDS)
def test_input_that_is_no_file(workshop: Workshop, tmp_path: Path, kind: str) -> None:
    assert no_files.attempt(workshop, tmp_path / "try", kind, 1, []) == ""


@pytest.mark.parametrize("kind", loops.KINDS)
def test_accident_of_a_loop(workshop: Workshop, tmp_path: Path, kind: str) -> None:
    assert loops.attempt(workshop, tmp_path / "try", kind, 1, []) == ""


@pytest.mark.skipif(bool(NO_NETWORK), reason=str(NO_NETWORK))
@pytest.mark.parametrize("kind", network.ACCIDENTS)
def test_accident_of_the_network(workshop: Workshop, losses: list[float], tmp_path: Path, kind: str) -> None:
    assert network.attempt(workshop, tmp_path / "try", kind, 1, losses) == ""
