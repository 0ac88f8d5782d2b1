# SPDX-License-Identifier: Apache-2.0
"""Keeps PyTorch's traces of its own errors from the reader of one sentence."""

import contextlib
import logging
from collections.abc import Iterator

from fcdp.errors import shows_torch_messages

# It logs the trace of an error that is also raised, so the user sees the error anyway.
_LOGGERS = ("torch._subclasses.fake_tensor", "torch._subclasses.fake_utils")


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
        logger.disabled = logger.disabled or not shows_torch_messages()
    try:
        yield
    finally:
        for logger, was_disabled in zip(loggers, before):
            logger.disabled = was_disabled
