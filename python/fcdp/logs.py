# SPDX-License-Identifier: Apache-2.0
"""Keeps PyTorch's traces of its own errors from the reader of one sentence."""

import contextlib
import logging
import os
from collections.abc import Iterator

VARIABLE = "FCDP_TORCH_ERRORS"
"""With 1 in it, errors have all lines that PyTorch says, and its logs are printed."""

# It logs the trace of an error that is raised, and so said, too.
_LOGGERS = ("torch._subclasses.fake_tensor", "torch._subclasses.fake_utils")


def shows_all() -> bool:
    return os.environ.get(VARIABLE) == "1"


@contextlib.contextmanager
def without_logs() -> Iterator[None]:
    """Drops all logs but critical ones until the context ends."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


@contextlib.contextmanager
def without_torch_logs() -> Iterator[None]:
    """Drops the logs of PyTorch's that repeat an error, until the context ends, unless the user wants them."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = logger.disabled or not shows_all()
    try:
        yield
    finally:
        for logger, was_disabled in zip(loggers, before):
            logger.disabled = was_disabled


def first_line(error: Exception) -> str:
    """Returns the first line of an error, and says how to see the others; or all lines if the user wants them."""
    text = str(error).strip() or type(error).__name__
    first, _, others = text.partition("\n")
    if not others or shows_all():
        return text
    return f"{first} ({VARIABLE}=1 shows {others.count(chr(10)) + 1} more lines of PyTorch's)"
