# SPDX-License-Identifier: Apache-2.0
"""Calls the library's functions, whose errors become StepError."""

from collections.abc import Callable
from typing import Any

from fcdp.errors import StepError

# The names of a session's errors, by which its messages begin (runtime/core/SessionError.h).
_CODES = (
    "bad object",
    "bad launch",
    "bad weights",
    "input mismatch",
    "no device",
    "rendezvous failed",
    "peer failed",
    "timed out",
    "out of memory",
    "file failed",
    "not finite",
    "misuse",
    "busy",
    "failed",
)


def call(function: Callable[..., Any], *args: Any) -> Any:
    """Returns function(*args)."""
    try:
        return function(*args)
    except RuntimeError as error:
        code, colon, message = str(error).partition(": ")
        if not colon or code not in _CODES:
            raise
        raise StepError(code, message) from None
