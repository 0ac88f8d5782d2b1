# SPDX-License-Identifier: Apache-2.0
"""Reads the metadata of PyTorch's distributed checkpoints without running code from it.

The file .metadata is a pickle, which PyTorch's FileSystemReader loads without limits: a folder from a stranger could
run anything. This module allows only the classes that PyTorch puts there.
"""

import io
import pickle
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta

from fcdp.checkpoint.errors import CheckpointError
from fcdp.checkpoint.regular import require_file

METADATA = ".metadata"
_DAMAGED = "the folder is damaged or from another version of PyTorch: save it again"

_METADATA_MODULE = "torch.distributed.checkpoint.metadata"
_METADATA_CLASSES = (
    "BytesStorageMetadata ChunkStorageMetadata Metadata MetadataIndex StorageMeta TensorProperties "
    "TensorStorageMetadata _MEM_FORMAT_ENCODING"
)
_ALLOWED = {
    *((_METADATA_MODULE, name) for name in _METADATA_CLASSES.split()),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch", "Size"),
    ("torch.serialization", "_get_layout"),
    ("collections", "OrderedDict"),
    *(
        (module, name)
        for module in ("pathlib", "pathlib._local")
        for name in ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")
    ),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED or (module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"'{module}.{name}', which is no part of a checkpoint's metadata")


def read_metadata(folder: Path) -> Metadata:
    """Returns the metadata. Raises CheckpointError if it is damaged, or asks for anything but its own classes."""
    path = require_file(folder / METADATA)
    try:
        metadata = _Unpickler(io.BytesIO(path.read_bytes())).load()
    except OSError:
        raise
    except Exception as error:
        # A damaged pickle may raise anything.
        found = str(error) or type(error).__name__
        raise CheckpointError(path, "metadata of a distributed checkpoint", found, _DAMAGED) from None
    if not isinstance(metadata, Metadata):
        found = type(metadata).__name__
        raise CheckpointError(path, "metadata of a distributed checkpoint", found, _DAMAGED)
    return metadata


class Reader(dcp.FileSystemReader):
    """Reads the data of a folder whose metadata has been read and checked."""

    def __init__(self, folder: Path, metadata: Metadata):
        super().__init__(folder)
        self._metadata = metadata
        self._metadata.storage_meta = StorageMeta()

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        return self._metadata
