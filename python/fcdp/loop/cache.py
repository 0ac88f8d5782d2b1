# SPDX-License-Identifier: Apache-2.0
"""The folder in which compiled steps are kept for the next job."""

import os
import tempfile
from pathlib import Path


def default_cache() -> Path:
    """Returns FCDP_CACHE, or a folder for caches of the user's."""
    named = os.environ.get("FCDP_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(named) if named else Path(base) / "fcdp"


def place(path: Path, content: bytes) -> None:
    """Writes a file whole. Several ranks of a machine may do it at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".step-") as folder:
        written = Path(folder) / path.name
        written.write_bytes(content)
        os.replace(written, path)
