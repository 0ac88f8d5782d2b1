# SPDX-License-Identifier: Apache-2.0
"""Skips what has not begun when scripts/test --within=SECONDS is over."""

import os
import time

import pytest

DEADLINE = float(os.environ.get("FCDP_TEST_DEADLINE", "inf"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    if time.time() > DEADLINE:
        pytest.skip("the time of scripts/test --within is over")
