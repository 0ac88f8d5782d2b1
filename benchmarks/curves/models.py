# SPDX-License-Identifier: Apache-2.0
"""The models and the text of the loss curves."""

import contextlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "gpt"))

from model import GPT, GPTConfig  # noqa: E402
from text import read_text  # noqa: E402

TIME = 64  # tokens of a sequence
BATCH = 2  # sequences of a micro-batch on a rank
EVALUATION_BATCH = 8
HELD_OUT = 0.1  # part of the text

MODELS = ("gpt", "llama")
PRECISIONS = {
    "f32": "float32",
    "autocast": "float32 parameters under bfloat16 autocast",
    "masters": "bfloat16 parameters with float32 masters",
}


@dataclass(frozen=True)
class Case:
    model: str
    precision: str

    @property
    def name(self) -> str:
        return f"{self.model}-{self.precision}"

    @property
    def decay_free(self) -> str:
        """Patterns of the parameters without weight decay."""
        return "*.bias,*ln*" if self.model == "gpt" else "*norm*"


class Loss(nn.Module):
    """Computes the loss of a model that gives logits, under autocast if asked."""

    def __init__(self, model: nn.Module, autocast: bool) -> None:
        super().__init__()
        self.model, self.autocast = model, autocast

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16) if self.autocast else contextlib.nullcontext():
            logits = self.model(input_ids=ids, use_cache=False).logits
        return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten())


class GPTLoss(nn.Module):
    """The same of the example's GPT, which computes its loss itself."""

    def __init__(self, model: GPT, autocast: bool) -> None:
        super().__init__()
        self.model, self.autocast = model, autocast

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16) if self.autocast else contextlib.nullcontext():
            return self.model(ids, labels)


def build(case: Case, vocabulary: int, seed: int) -> nn.Module:
    """Returns the model with float32 parameters."""
    torch.manual_seed(seed)
    autocast = case.precision == "autocast"
    if case.model == "gpt":
        return GPTLoss(GPT(GPTConfig(vocabulary, TIME, layers=3, heads=4, width=96)), autocast)
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    from transformers import LlamaConfig, LlamaForCausalLM

    shapes = dict(hidden_size=96, intermediate_size=256, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2)
    return Loss(LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary, max_position_embeddings=TIME, **shapes)), autocast)


@dataclass(frozen=True)
class Rows:
    """Windows of the text, int64 [rows, batch, TIME]. Labels are the characters that follow those of `ids`."""

    ids: np.ndarray
    labels: np.ndarray

    def save(self, folder: Path, name: str) -> dict[str, Path]:
        """Returns the files of the inputs by name."""
        files = {"ids": folder / f"{name}-ids.npy", "labels": folder / f"{name}-labels.npy"}
        for key, path in files.items():
            np.save(path, getattr(self, key))
        return files


class Text:
    """The licences of Debian, by character. The last tenth is held out of training."""

    def __init__(self) -> None:
        text = read_text()
        characters = sorted(set(text))
        numbers = {character: number for number, character in enumerate(characters)}
        tokens = np.fromiter((numbers[character] for character in text), np.int64, len(text))
        self.vocabulary = len(characters)
        end = int(len(tokens) * (1 - HELD_OUT))
        self.train, self.held_out = tokens[:end], tokens[end:]

    def training_rows(self, count: int, seed: int) -> Rows:
        """Windows in a random order; each is read once before one is read again."""
        generator = np.random.default_rng(seed)
        windows = (len(self.train) - 1) // TIME
        needed = count * BATCH
        orders = [generator.permutation(windows) for _ in range(-(-needed // windows))]
        return _rows(self.train, np.concatenate(orders)[:needed], BATCH)

    def evaluation_rows(self, count: int) -> Rows:
        return _rows(self.held_out, np.arange(count * EVALUATION_BATCH), EVALUATION_BATCH)


def _rows(tokens: np.ndarray, windows: np.ndarray, batch: int) -> Rows:
    places = windows[:, None] * TIME + np.arange(TIME)
    return Rows(*(tokens[places + shift].reshape(-1, batch, TIME) for shift in (0, 1)))
