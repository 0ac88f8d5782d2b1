# SPDX-License-Identifier: Apache-2.0
"""Turns a PyTorch training step into an archive that fcdp-compile reads."""

from fcdp.data import NpyRows, TokenWindows, batches, batches_from_npy, open_input
from fcdp.errors import ExportError
from fcdp.exporter import Exported, export
from fcdp.reference import reference
from fcdp.version import __version__

__all__ = [
    "ExportError",
    "Exported",
    "NpyRows",
    "TokenWindows",
    "__version__",
    "batches",
    "batches_from_npy",
    "export",
    "open_input",
    "reference",
]
