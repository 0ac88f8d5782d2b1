# SPDX-License-Identifier: Apache-2.0
"""Exports PyTorch training steps for fcdp-compile, and runs compiled ones in loops of PyTorch."""

from typing import TYPE_CHECKING, Any

from fcdp.data import NpyRows, TokenWindows, batches, batches_from_npy, open_input
from fcdp.errors import ExportError, StepError
from fcdp.reference import reference
from fcdp.version import __version__

if TYPE_CHECKING:
    from fcdp.casting import cast_parameters
    from fcdp.empty import empty_weights
    from fcdp.exporter import Exported, export
    from fcdp.loop.compile import compile
    from fcdp.loop.step import Step
    from fcdp.packed import packed_attention

__all__ = [
    "ExportError",
    "Exported",
    "NpyRows",
    "Step",
    "StepError",
    "TokenWindows",
    "__version__",
    "batches",
    "batches_from_npy",
    "cast_parameters",
    "compile",
    "empty_weights",
    "export",
    "open_input",
    "packed_attention",
    "reference",
]


def __getattr__(name: str) -> Any:
    # Loads PyTorch's tracing, which takes seconds, only for programs that export.
    if name == "empty_weights":
        from fcdp import empty

        return empty.empty_weights
    if name == "cast_parameters":
        from fcdp import casting

        return casting.cast_parameters
    if name == "compile":
        from fcdp.loop import compile as loop

        return loop.compile
    if name == "Step":
        from fcdp.loop import step

        return step.Step
    if name == "packed_attention":
        from fcdp import packed

        return packed.packed_attention
    if name in ("Exported", "export"):
        from fcdp import exporter

        return getattr(exporter, name)
    raise AttributeError(f"module 'fcdp' has no attribute '{name}'")
