# SPDX-License-Identifier: Apache-2.0
"""The folder in which compiled steps are kept for the next job.

fcdp-compile ends each step with its hash, so a file that a crash or a full disk has cut is not taken for a step.
"""

import atexit
import contextlib
import functools
import hashlib
import os
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

# The end of a step, before its SHA-1 in lower-case hex digits (FCDP_OBJECT_SEAL in runtime/include/fcdp/runtime.h).
_SEAL = b"\x7fFCDPSUM"
_SEAL_BYTES = len(_SEAL) + 2 * hashlib.sha1().digest_size
# Less free memory is not enough for the files from which a step is made.
_LEAST_FREE_BYTES = 64 << 20
# Files of a killed process are removed from the cache after this time, when no other process can be writing them.
_STALE_SECONDS = 24 * 60 * 60


def default_cache() -> Path:
    """Returns FCDP_CACHE, or a folder for caches of the user's."""
    named = os.environ.get("FCDP_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(named) if named else Path(base) / "fcdp"


def read_step(path: Path) -> bytes | None:
    """Returns the content of a compiled step, or None if it is not there, is damaged, or is no regular file."""
    try:
        # A pipe is not waited for.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            content = file.read()
    except OSError:
        return None
    return content if content.endswith(_SEAL + hashlib.sha1(content[:-_SEAL_BYTES]).hexdigest().encode()) else None


def place(path: Path, step: bytes) -> Path:
    """Writes a file whole, in place of a damaged one, and returns its path. Several ranks of a machine may do it at
    once.

    If the cache cannot take it, warns, and returns the path of a file for this process alone.
    """
    try:
        write_whole(path, step)
        return path
    except OSError as error:
        warnings.warn(
            f"the cache of compiled steps cannot be used ({error}): the step is kept for this job alone; free or repair "
            "that folder, or name another one with FCDP_CACHE or fcdp.compile(cache=...)",
            RuntimeWarning,
            stacklevel=2,
        )
    own = _own_folder() / path.name
    write_whole(own, step)
    return own


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that no process ever sees a part of it. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".step-") as folder:
        written = Path(folder) / path.name
        with open(written, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(written, path)


@contextlib.contextmanager
def work_folder(cache: Path) -> Iterator[Path]:
    """Makes a folder for temporary files: in the cache, or elsewhere if the cache cannot take them."""
    _remove_stale(cache)
    with tempfile.TemporaryDirectory(dir=cache if _takes_files(cache) else None, prefix=".step-") as folder:
        yield Path(folder)


def _remove_stale(cache: Path) -> None:
    for left in cache.glob(".step-*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(left, ignore_errors=True)


def _takes_files(cache: Path) -> bool:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".step-"):
            return shutil.disk_usage(cache).free >= _LEAST_FREE_BYTES
    except OSError:
        return False


@functools.cache
def _own_folder() -> Path:
    """Makes a folder that is removed when this process ends, and not when one ends that was forked from it."""
    folder, process = tempfile.mkdtemp(prefix="fcdp-step-"), os.getpid()

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return Path(folder)
