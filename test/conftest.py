# SPDX-License-Identifier: Apache-2.0
"""Skips what has not begun when scripts/test --within=SECONDS is over. Has jobs heed signals that the tests ignore."""

import os
import signal
import time

import pytest

DEADLINE = float(os.environ.get("FCDP_TEST_DEADLINE", "inf"))

# A script that starts the tests in the background has them ignore SIGINT, and nohup SIGHUP. What a test starts would inherit
# that. A signal that has a handler is one with its usual effect in another program.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, lambda *_: None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    if time.time() > DEADLINE:
        pytest.skip("the time of scripts/test --within is over")
