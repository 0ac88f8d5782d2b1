# SPDX-License-Identifier: Apache-2.0
"""Says on standard error what a long export does, as the tools do."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

PATIENCE_SECONDS = 5
"""Nothing is printed before this time."""

_shown: "_Progress | None" = None


class _Progress:
    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._lock = threading.Lock()
        self._stage = ""
        self._timer = threading.Timer(PATIENCE_SECONDS, self._show)
        self._timer.daemon = True
        self._is_shown = False
        self._timer.start()

    def start(self, stage: str) -> None:
        with self._lock:
            self._stage = stage
            if self._is_shown:
                self._print()

    def end(self) -> None:
        self._timer.cancel()
        self._timer.join()

    def _show(self) -> None:
        with self._lock:
            self._is_shown = True
            self._print()

    def _print(self) -> None:
        if self._stage and sys.stderr is not None:
            print(f"fcdp: {self._stage} ... ({time.monotonic() - self._begin:.0f} s)", file=sys.stderr, flush=True)


@contextlib.contextmanager
def shown_progress() -> Iterator[None]:
    """Prints the stages of this context once the first seconds are over. A context within another one does nothing."""
    global _shown
    if _shown is not None:
        yield
        return
    _shown = _Progress()
    try:
        yield
    finally:
        _shown.end()
        _shown = None


def start_stage(stage: str) -> None:
    """Ends the stage before. `stage` says what is done, such as "tracing the forward pass"."""
    if _shown is not None:
        _shown.start(stage)


@contextlib.contextmanager
def hidden_progress() -> Iterator[None]:
    """Has the stages that begin within this context be parts of the one that runs."""
    global _shown
    shown, _shown = _shown, None
    try:
        yield
    finally:
        _shown = shown
