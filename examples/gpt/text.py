# SPDX-License-Identifier: Apache-2.0
"""Reads training text that every Debian machine has: the licences in /usr/share/common-licenses, about 230 KB."""

import json
from pathlib import Path

import numpy as np

LICENSES = Path("/usr/share/common-licenses")


def read_text(folder: Path = LICENSES) -> str:
    """Returns the concatenated text of the regular files of `folder`, in sorted order.

    Links are duplicates: skipped.
    """
    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.is_symlink())
    if not files:
        raise FileNotFoundError(f"expected text files in {folder}, found none")
    return "".join(file.read_text(encoding="utf-8", errors="replace") for file in files)


def write_tokens(text: str, folder: Path) -> int:
    """Writes tokens.u16 (one little-endian number per character) and vocabulary.json. Returns the vocabulary's size."""
    vocabulary = sorted(set(text))
    number = {character: i for i, character in enumerate(vocabulary)}
    tokens = np.fromiter((number[character] for character in text), dtype="<u2", count=len(text))
    tokens.tofile(folder / "tokens.u16")
    (folder / "vocabulary.json").write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    return len(vocabulary)
