# SPDX-License-Identifier: Apache-2.0
"""Opens checkpoints of any format."""

from pathlib import Path

from fcdp.checkpoint import huggingface
from fcdp.checkpoint.dcp_metadata import METADATA
from fcdp.checkpoint.dcp_names import Prefixes
from fcdp.checkpoint.dcp_reader import open_dcp
from fcdp.checkpoint.errors import CheckpointError
from fcdp.checkpoint.index import FILE_NAME
from fcdp.checkpoint.runs import complete_checkpoints, is_unfinished
from fcdp.checkpoint.sharded import open_sharded
from fcdp.checkpoint.state import Checkpoint

_KINDS = (
    "a checkpoint of fcdp-run (index.json), the folder of a run (step-*), a safetensors file, a Hugging Face folder "
    f"(*.safetensors) or a distributed checkpoint of PyTorch ({METADATA})"
)


def open_checkpoint(path: Path, prefixes: Prefixes | None = None) -> Checkpoint:
    """Opens a file or a folder; of a run's folder, the latest checkpoint. Damage of data is in `problems`.

    Raises CheckpointError for anything else.
    """
    if not path.exists():
        raise CheckpointError(path, "a checkpoint", "nothing", "check the name")
    if path.is_dir():
        return _open_folder(path, prefixes)
    if path.name.endswith(huggingface.INDEX_SUFFIX):
        return huggingface.open_folder(path)
    if path.suffix == ".safetensors":
        return huggingface.open_file(path)
    raise CheckpointError(path, _KINDS, f"a file *{path.suffix}", "name one of these")


def _open_folder(path: Path, prefixes: Prefixes | None) -> Checkpoint:
    if is_unfinished(path.resolve()):
        found = "one that is being written or removed, or that a crash left"
        raise CheckpointError(path, "a complete checkpoint", found, "use one without this suffix")
    if (path / FILE_NAME).is_file():
        return open_sharded(path)
    if (path / METADATA).is_file():
        return open_dcp(path, prefixes)
    if checkpoints := complete_checkpoints(path):
        return open_sharded(checkpoints[-1].path)
    if index := huggingface.find_index(path):
        return huggingface.open_folder(index)
    if file := huggingface.find_file(path):
        return huggingface.open_file(file)
    raise CheckpointError(path, _KINDS, "a folder with none of these", "check the name")


def open_complete(path: Path, prefixes: Prefixes | None = None) -> Checkpoint:
    """Opens a checkpoint whose data is to be read. Raises CheckpointError if something is missing."""
    checkpoint = open_checkpoint(path, prefixes)
    if checkpoint.problems:
        more = len(checkpoint.problems) - 1
        found = checkpoint.problems[0] + (f" (and {more} more: see fcdp-ckpt inspect)" if more else "")
        raise CheckpointError(checkpoint.path, "all pieces", found, "restore the files, or use another checkpoint")
    return checkpoint
