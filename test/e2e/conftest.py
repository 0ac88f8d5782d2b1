# SPDX-License-Identifier: Apache-2.0
import os
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness import Workshop  # noqa: E402


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    # The ranks run with one thread each; so does the reference.
    torch.set_num_threads(1)
    base = tmp_path_factory.getbasetemp()
    # Processes of pytest-xdist have folders of their own in that of the session.
    session = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return Workshop(session / "e2e")
