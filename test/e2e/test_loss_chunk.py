# SPDX-License-Identifier: Apache-2.0
"""Losses in chunks, --loss-chunk: the loss of the whole, with logits that are never in memory as a whole."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fcdp
from harness import Config, Workshop, assert_bit_equal, compile_command, read_log, read_plan, relative_error, run_command, tool
from test_evaluation import evaluate

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS = 3
SGD = "sgd,lr=0.1,momentum=0.9"


@pytest.mark.parametrize("model", ["gpt_tied", "hf_llama", "peft_lora", "gpt_autocast"])
def test_losses_and_parameters(workshop: Workshop, model: str) -> None:
    """A tied head, labels that are padded, a frozen head, and a head in bf16. The first loss has the bits of the whole.
    Later ones differ by sums in another order. Strategies have the same bits."""
    config = Config(model, 1, 2, "zero3", 2, optimizer=SGD, loss_chunk="16")
    chunked, whole = workshop.run(config, STEPS), workshop.run(replace(config, loss_chunk=""), STEPS)
    assert chunked.losses[0] == whole.losses[0]
    tolerance = 2e-3 if model == "gpt_autocast" else 1e-6
    assert relative_error(chunked.losses, whole.losses) < tolerance
    assert relative_error(chunked.losses, workshop.reference(config, STEPS).losses) < 10 * tolerance
    assert_bit_equal(chunked, workshop.run(replace(config, strategy="fcdp"), STEPS))


def test_scaled_loss(workshop: Workshop) -> None:
    """The gradient of the loss begins with the loss scale, a number that each step reads before the loss."""
    config = Config("gpt_f16", 1, 2, "fcdp", 2, master="f32", loss_scale=True, loss_chunk="16")
    chunked, whole = workshop.run(config, STEPS), workshop.run(replace(config, loss_chunk=""), STEPS)
    assert chunked.losses[0] == whole.losses[0]
    assert relative_error(chunked.losses, whole.losses) < 2e-3


def test_evaluation(workshop: Workshop, tmp_path: Path) -> None:
    """Evaluations have no gradients, and the loss of the whole."""
    config = Config("gpt", 1, 2, "fcdp", optimizer=SGD, loss_chunk="16")
    runs = []
    for one in (config, replace(config, loss_chunk="")):
        folder = tmp_path / (one.loss_chunk or "whole")
        folder.mkdir()
        runs.append([line["evaluation_loss"] for line in evaluate(workshop, one, folder, "--eval-every=1").evaluations])
    assert len(runs[0]) >= STEPS
    assert relative_error(*runs) < 1e-6


FEATURES, VOCABULARY, ROWS = 16, 4000, 512


class Head(nn.Module):
    """Little more than a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, FEATURES)
        self.head = nn.Linear(FEATURES, VOCABULARY, bias=False)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.head(self.embedding(ids)).view(-1, VOCABULARY), labels.view(-1))


def test_planned_is_measured(tmp_path: Path) -> None:
    """Logits of a chunk and their gradient are the difference between two plans. A run takes what is planned."""
    torch.manual_seed(1)
    rows = torch.randint(VOCABULARY, (2, 1, ROWS))
    fcdp.export(Head(), {"ids": rows[0], "labels": rows[1]}, tmp_path / "head.pt2")
    for name, array in zip(("ids", "labels"), rows.numpy()):
        np.save(tmp_path / f"{name}.npy", np.stack([array] * 2))
    planned, losses = {}, {}
    for chunk in ("64", "128", "off"):
        config = Config("head", 1, 1, "zero3", loss_chunk=chunk)
        step, log = tmp_path / f"{chunk}.so", tmp_path / f"{chunk}.jsonl"
        tool(*compile_command(config, tmp_path / "head.pt2", step))
        planned[chunk] = read_plan(step)["planned"]["device_bytes"]
        inputs = {name: tmp_path / f"{name}.npy" for name in ("ids", "labels")}
        tool(*run_command(step, tmp_path / "head.pt2", inputs, 2, f"--json={log}"))
        lines = [line for line in read_log(log) if "loss" in line]
        losses[chunk] = lines[0]["loss"]
        assert lines[-1]["device_peak_bytes"] == planned[chunk]
    # Log-probabilities and their gradient, in f32.
    assert planned["128"] - planned["64"] == 2 * 64 * VOCABULARY * 4
    # The whole has these, and the logits.
    assert planned["off"] - planned["128"] > 3 * (ROWS - 128) * VOCABULARY * 4
    assert losses["64"] == losses["128"] == losses["off"]
