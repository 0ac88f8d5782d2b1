# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from fcdp.checkpoint.cli import main


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: str
    error: str


@pytest.fixture
def ckpt(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Runs fcdp-ckpt in this process."""

    def run(*arguments: Any) -> Ended:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return run
