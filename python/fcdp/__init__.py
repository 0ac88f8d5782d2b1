# SPDX-License-Identifier: Apache-2.0
"""Turns a PyTorch training step into an archive that fcdp-compile reads."""

from typing import TYPE_CHECKING, Any

from fcdp.data import NpyRows, TokenWindows, batches, batches_from_npy, open_input
from fcdp.errors import ExportError
from fcdp.reference import reference
from fcdp.version import __version__

if TYPE_CHECKING:
    from fcdp.empty import empty_weights
    from fcdp.exporter import Exported, export

__all__ = [
    "ExportError",
    "Exported",
    "NpyRows",
    "TokenWindows",
    "__version__",
    "batches",
    "batches_from_npy",
    "empty_weights",
    "export",
    "open_input",
    "reference",
]


def __getattr__(name: str) -> Any:
    # Loads PyTorch's tracing, which takes seconds, only for those who export.
    if name == "empty_weights":
        from fcdp import empty

        return empty.empty_weights
    if name in ("Exported", "export"):
        from fcdp import exporter

        return getattr(exporter, name)
    raise AttributeError(f"module 'fcdp' has no attribute '{name}'")
