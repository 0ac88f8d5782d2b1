# SPDX-License-Identifier: Apache-2.0
"""Threads export and compile one after the other: PyTorch's tracing changes the state of the process."""

import contextlib
import os
import threading
from collections.abc import Iterator

_lock = threading.RLock()


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    with _lock:
        yield


def _renew() -> None:
    """A process that was forked from this one lacks the thread that has the lock."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew)
