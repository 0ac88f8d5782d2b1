# SPDX-License-Identifier: Apache-2.0
"""Runs what a model has under torch.compile as if it were not."""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fcdp.attributes import is_torchs


@contextlib.contextmanager
def compiled_as_eager() -> Iterator[None]:
    """Has Python run functions and modules that torch.compile has made, until the context ends.

    PyTorch compiles the branches of torch.cond and its like when they are called. These stay compiled.
    """
    compile_function = torch.compile

    def compile(*args: Any, **kwargs: Any) -> Any:
        made = compile_function(*args, **kwargs)
        return _by_default(made) if is_torchs(sys._getframe(1).f_code.co_filename) else made

    torch.compile = compile  # type: ignore[assignment]
    try:
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        torch.compile = compile_function


def _by_default(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with torch.compiler.set_stance("default"):
            return function(*args, **kwargs)

    return run
