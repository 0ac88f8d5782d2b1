# SPDX-License-Identifier: Apache-2.0
"""Suggests what a misspelt name was meant to be."""

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Returns ": did you mean 'NAME'?" with the known name that is nearest to `given`, or "" if none is near."""
    near = difflib.get_close_matches(given, list(known), n=1)
    return f": did you mean '{near[0]}'?" if near else ""


def with_suggestions(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Has the TypeError for an unknown keyword argument of a function name the argument that was meant."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def called(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        for name in kwargs:
            if name not in known:
                suggestion = did_you_mean(name, known)
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument '{name}'{suggestion}")
        return function(*args, **kwargs)

    return called
