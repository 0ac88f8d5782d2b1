# SPDX-License-Identifier: Apache-2.0
from pathlib import Path


class CheckpointError(Exception):
    """Raised for input that cannot be used. The message names the file and says what to do."""

    def __init__(self, path: Path | str, expected: str, found: str, advice: str):
        super().__init__(f"{path}: expected {expected}, found {found}; {advice}")
