# SPDX-License-Identifier: Apache-2.0
"""The model that the demonstration trains: the GPT of examples/gpt, on text, and its losses in plain PyTorch."""

from pathlib import Path

import torch

import fcdp
from demo_print import Progress
from harness import Config
from model import GPT, GPTConfig
from text import read_text, write_tokens

NODES, LOCAL = 2, 2
OPTIMIZER = "adamw,lr=3e-4"


class Example:
    def __init__(self, folder: Path, batch: int):
        self.folder, self.batch = folder, batch
        self.archive = folder / "step.pt2"
        tokens = folder / "tokens.u16"
        self.inputs = {"ids": f"{tokens}:u16", "labels": f"{tokens}:u16+1"}

    def config(self, strategy: str) -> Config:
        return Config("gpt", NODES, LOCAL, strategy, optimizer=OPTIMIZER)

    def model(self) -> GPT:
        torch.manual_seed(0)
        return GPT(GPTConfig(self.vocabulary))

    def export(self) -> None:
        with Progress("export the training step from PyTorch"):
            self.vocabulary = write_tokens(read_text(), self.folder)
            model = self.model()
            ids, labels = (torch.randint(self.vocabulary, (self.batch, model.wpe.num_embeddings)) for _ in range(2))
            fcdp.export(model, (ids, labels), self.archive)
            self.layers = len(model.blocks)

    def reference(self, world: int, steps: int) -> list[float]:
        """Losses of plain PyTorch on the batches that `world` ranks read."""
        model = self.model()
        shape = (self.batch, model.wpe.num_embeddings)
        sources = {name: fcdp.open_input(source, shape) for name, source in self.inputs.items()}
        return fcdp.reference(model, fcdp.batches(sources, world), OPTIMIZER, steps)

    def live_ranges(self) -> dict[str, int]:
        """How often a micro-batch needs each unit's parameters: blocks and the last norm twice, the ends once."""
        blocks = {f"blocks.{i}": 2 for i in range(self.layers)}
        return {"wte": 1, "wpe": 1, **blocks, "ln_f": 2, "lm_head": 1}
