# SPDX-License-Identifier: Apache-2.0
"""Writes files and folders that are complete or not there."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from fcdp.checkpoint.errors import CheckpointError


def check_place(path: Path, read: Iterable[Path]) -> None:
    """Raises CheckpointError if `path` is in one of the folders that are read, which then would have other contents."""
    parents = path.resolve().parents
    for folder in read:
        if folder.is_dir() and folder.resolve() in parents:
            raise CheckpointError(path, "a place of its own", f"one in {folder}, which is read", "write to another folder")


def _prepare(path: Path) -> None:
    if path.exists() or path.is_symlink():
        kind = "a folder" if path.is_dir() else "a file"
        raise CheckpointError(path, "a path that does not exist", kind, "remove it, or write to another path")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise CheckpointError(path.parent, "a folder", "a file in its place", "write to another path") from None


def sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mode(base: int) -> int:
    mask = os.umask(0)
    os.umask(mask)
    return base & ~mask


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Yields a file that gets the name `path` when the context ends, and vanishes if it ends with an exception."""
    _prepare(path)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(0o666))
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    sync(path.parent)


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yields a folder that gets the name `path` when the context ends, and vanishes if it ends with an exception."""
    _prepare(path)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        temporary.chmod(_mode(0o777))
        yield temporary
        for file in temporary.iterdir():
            sync(file)
        sync(temporary)
        temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync(path.parent)
