# SPDX-License-Identifier: Apache-2.0
"""Files that are none: pipes, devices and sockets, which would be waited for, or have no end."""

from pathlib import Path

from fcdp.checkpoint.errors import CheckpointError


def require_file(path: Path) -> Path:
    """Returns the path. Raises CheckpointError if something else than a file or a folder is there."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise CheckpointError(path, "a file", "a pipe, a device or a socket", "restore it, or name another file")
    return path
