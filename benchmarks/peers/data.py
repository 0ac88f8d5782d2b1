# SPDX-License-Identifier: Apache-2.0
"""The rows of text that all programs read: the licences of Debian, by character."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from settings import SEED
from steps import BATCH, TIME
from text import read_text


@dataclass(frozen=True)
class Data:
    vocabulary: int
    files: dict[str, Path]
    """Inputs by name: int64 [rows, BATCH, TIME], a row for a micro-batch of a rank. Labels are one character later."""

    def first_row(self) -> tuple[torch.Tensor, ...]:
        return tuple(torch.from_numpy(np.load(path)[0]) for path in self.files.values())


def write(folder: Path) -> Data:
    """Writes all windows of the text, in a random order."""
    text = read_text()
    vocabulary = sorted(set(text))
    numbers = {character: number for number, character in enumerate(vocabulary)}
    tokens = np.fromiter((numbers[character] for character in text), np.int64, len(text))
    windows = np.random.default_rng(SEED).permutation((len(tokens) - 1) // TIME)
    windows = windows[: len(windows) // BATCH * BATCH]
    places = windows[:, None] * TIME + np.arange(TIME)
    files = {"ids": folder / "ids.npy", "labels": folder / "labels.npy"}
    for shift, path in enumerate(files.values()):
        np.save(path, tokens[places + shift].reshape(-1, BATCH, TIME))
    return Data(len(vocabulary), files)
