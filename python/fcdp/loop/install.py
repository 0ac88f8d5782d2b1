# SPDX-License-Identifier: Apache-2.0
"""Finds the compiler and the library that belong to this package."""

import functools
import os
from dataclasses import dataclass
from pathlib import Path

import torch

from fcdp.errors import StepError

_LIBRARY = "libfcdp_python.so"
_VERSION = "fcdp-torch-version"


@dataclass(frozen=True)
class Install:
    compiler: Path
    library: Path


def _folders() -> list[Path]:
    package = Path(__file__).resolve().parents[1]
    named = os.environ.get("FCDP_HOME")
    # The folder in a wheel, and the folder that scripts/setup builds in a checkout.
    return [Path(named)] if named else [package / "native", package.parents[1] / "build"]


@functools.cache
def find_install() -> Install:
    """Raises StepError if nothing is installed, or for another PyTorch."""
    for folder in _folders():
        compiler, library = folder / "bin" / "fcdp-compile", folder / "lib" / _LIBRARY
        if compiler.exists() and library.exists():
            _check_version(folder / "lib" / _VERSION)
            return Install(compiler, library)
    raise StepError(
        "install",
        f"expected bin/fcdp-compile and lib/{_LIBRARY} in one of {', '.join(map(str, _folders()))}, got none: "
        "run scripts/setup in a checkout, install fcdp's wheel, or set FCDP_HOME to the folder that has them",
    )


def _check_version(path: Path) -> None:
    built, here = path.read_text().strip(), torch.__version__.partition("+")[0]
    if built.split(".")[:2] != here.split(".")[:2]:
        raise StepError(
            "install",
            f"fcdp's library was built for PyTorch {built}, and this is {here}, with another binary interface: "
            f"install torch=={built}, or build fcdp for this one (scripts/setup, scripts/wheel)",
        )


@functools.cache
def load_library() -> None:
    """Makes torch.classes.fcdp and torch.ops.fcdp known. Raises StepError if that fails."""
    library = find_install().library
    try:
        torch.classes.load_library(str(library))
    except OSError as error:
        raise StepError("install", f"{library} cannot be loaded into PyTorch {torch.__version__}: {error}") from error
