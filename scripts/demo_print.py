# SPDX-License-Identifier: Apache-2.0
"""How the demonstration talks."""

import time
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Check:
    what: str
    found: str
    holds: bool


def print_table(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    lines = [header, *(tuple(str(cell) for cell in row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    for line in lines:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths)))


class Progress:
    """Says what is done, and how long it took."""

    def __init__(self, what: str):
        self.what = what

    def __enter__(self) -> "Progress":
        print(f"{self.what} ...", end="", flush=True)
        self.begin = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        print(f" {time.perf_counter() - self.begin:.2f} s", flush=True)
