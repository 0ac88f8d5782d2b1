# SPDX-License-Identifier: Apache-2.0
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
    return Workshop(tmp_path_factory.mktemp("e2e"))
