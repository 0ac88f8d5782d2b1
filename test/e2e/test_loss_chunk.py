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
from harness import BIN, Config, Workshop, assert_bit_equal, compile_command, parameters, read_log, read_plan, relative_error, run_command, tool
from test_evaluation import evaluate

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS = 3
SGD = "sgd,lr=0.1,momentum=0.9"


@pytest.mark.parametrize("model", ["gpt_tied", "hf_llama", "peft_lora", "gpt_autocast", "gpt_distilled"])
def test_losses_and_parameters(workshop: Workshop, model: str) -> None:
    """A tied head, labels that are padded, a frozen head, a head in bf16, and a teacher. The first loss has the bits of
    the whole. Later ones differ by sums in another order. Strategies have the same bits."""
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
    # A bound on the device's memory demands chunks, and is kept.
    bound = (planned["64"] + planned["off"]) // 2
    step = tmp_path / "auto.so"
    tool(*compile_command(Config("head", 1, 1, "zero3", loss_chunk="auto", device_memory=bound), tmp_path / "head.pt2", step))
    assert read_plan(step)["planned"]["device_bytes"] <= bound


class Deep(nn.Module):
    """Blocks whose values need much more memory than logits."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, 32)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32)) for _ in range(6))
        self.head = nn.Linear(32, 64)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        for block in self.blocks:
            x = x + block(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), ids.flatten())


def test_auto_knows_what_is_recomputed(tmp_path: Path) -> None:
    """The whole loss fits the memory of a step that recomputes blocks, but not beside the values of all blocks."""
    archive, step = tmp_path / "deep.pt2", tmp_path / "deep.so"
    fcdp.export(Deep(), {"ids": torch.randint(64, (4, 256))}, archive)
    planned = {}
    for remat in ("none", "unit"):
        tool(*compile_command(Config("deep", 1, 1, "zero3", remat=remat), archive, step))
        planned[remat] = read_plan(step)["planned"]["device_bytes"]
    assert planned["unit"] < planned["none"] / 2
    config = Config("deep", 1, 1, "zero3", remat="unit", loss_chunk="auto", device_memory=planned["unit"])
    tool(*compile_command(config, archive, step))
    assert "fcdp::chunked_" not in tool(BIN / "fcdp-compile", step, "--emit=plan-json")
    assert read_plan(step)["planned"]["device_bytes"] == planned["unit"]


def cross_entropy(**options):
    return lambda z, y, w: F.cross_entropy(z.flatten(0, 1), y.flatten(), **options)


def weighted(z: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (F.cross_entropy(z.flatten(0, 1), y.flatten(), reduction="none") * w.flatten()).sum() / w.sum()


def gathered(z: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return -(F.log_softmax(z, -1).gather(-1, y.clamp(min=0).unsqueeze(-1)).squeeze(-1) * w).mean()


def sliced(z: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(z[..., :-1, :].contiguous().flatten(0, 1), y[:, 1:].flatten())


def sliced_gather(z: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    labels = y[:, 1:].clamp(min=0).unsqueeze(-1)
    return -(F.log_softmax(z[:, :-1].float(), -1).gather(-1, labels).squeeze(-1) * w[:, 1:]).sum() / 7


def smoother(z: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The label smoother of Transformers' Trainer."""
    negated, labels = -F.log_softmax(z, -1), y.unsqueeze(-1)
    padding = labels.eq(-100)
    loss = negated.gather(-1, labels.clamp(min=0)).masked_fill(padding, 0.0)
    smoothed = negated.sum(-1, keepdim=True, dtype=torch.float32).masked_fill(padding, 0.0)
    count = padding.numel() - padding.long().sum()
    return 0.9 * loss.sum() / count + 0.1 * smoothed.sum() / (count * z.shape[-1])


FORMS = {
    "weighted": weighted,
    "smooth": cross_entropy(label_smoothing=0.1),
    "smooth_sum": cross_entropy(label_smoothing=0.1, reduction="sum"),
    "gathered": gathered,
    "sliced": sliced,
    "sliced_gather": sliced_gather,
    "smoother": smoother,
}


class Form(nn.Module):
    """A head with one of these losses."""

    def __init__(self, name: str, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(512, 16, dtype=dtype)
        self.head = nn.Linear(16, 512, bias=name == "sliced", dtype=dtype)
        self.loss = FORMS[name]

    def forward(self, ids: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return self.loss(self.head(self.embedding(ids)), labels, weights)


def train(folder: Path, model: nn.Module, chunk: str, *options: str, lr: float = 0.5) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss and the parameters of a step. No word occurs twice: embeddings have the gradients of hidden states."""
    torch.manual_seed(5)
    labels = torch.randint(512, (3, 48))
    labels[0, :9] = -100
    batch = {"ids": torch.randperm(512)[: 3 * 48].view(3, 48), "labels": labels, "weights": torch.rand(3, 48)}
    if getattr(model, "is_given", False):
        batch["teacher"] = 3 * torch.randn(3, 48, 512)
    archive, step = folder / "form.pt2", folder / f"{chunk}.so"
    if not archive.exists():
        fcdp.export(model, batch, archive)
    for name, value in batch.items():
        np.save(folder / f"{name}.npy", value.numpy()[None])
    config = Config("form", 1, 1, "zero3", optimizer=f"sgd,lr={lr}", loss_chunk=chunk)
    tool(*compile_command(config, archive, step), *options)
    is_chunked = "fcdp::chunked_" in tool(BIN / "fcdp-compile", step, "--emit=plan-json")
    assert is_chunked == (chunk != "off"), "the loss is not in chunks"
    log, out = folder / f"{chunk}.jsonl", folder / f"{chunk}.safetensors"
    inputs = {name: folder / f"{name}.npy" for name in batch}
    tool(*run_command(step, archive, inputs, 1, f"--json={log}", f"--params-out={out}"))
    return next(line["loss"] for line in read_log(log) if "loss" in line), parameters(out)


@pytest.mark.parametrize("form", FORMS)
def test_forms(tmp_path: Path, form: str) -> None:
    """The loss and the gradient of the hidden states have the bits of the whole."""
    torch.manual_seed(3)
    model = Form(form)
    options = ["--loss-weight=weights"] if form == "weighted" else []
    loss, whole = train(tmp_path, model, "off", *options)
    chunked_loss, chunked = train(tmp_path, model, "64", *options)
    assert chunked_loss == loss
    assert torch.equal(chunked["embedding.weight"], whole["embedding.weight"])
    assert not torch.equal(whole["embedding.weight"], model.embedding.weight)
    change = (whole["head.weight"] - model.head.weight).abs().max().item()
    assert (chunked["head.weight"] - whole["head.weight"]).abs().max().item() < 1e-6 * change + 1e-8


def mixed(z: torch.Tensor, t: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """As in the examples of Transformers: labels, and a teacher at a temperature."""
    teacher = F.kl_div(F.log_softmax(z / 2, -1), F.softmax(t / 2, -1), reduction="batchmean") * 2.0**2
    return 0.3 * F.cross_entropy(z.flatten(0, 1), y.flatten()) + 0.7 * teacher


def log_target(z: torch.Tensor, t: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.kl_div(F.log_softmax(z / 3, -1), F.log_softmax(t / 3, -1), reduction="sum", log_target=True) / 100


def forward_kl(z: torch.Tensor, t: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """torchtune's ForwardKLLoss."""
    z, t, y = z.flatten(0, 1), t.flatten(0, 1), y.flatten()
    products = F.softmax(t, -1, dtype=torch.float32) * F.log_softmax(z, -1, dtype=torch.float32)
    rows, mask = torch.masked_fill(products, torch.isinf(z), 0).sum(-1).view(-1), (y != -100).int()
    return -torch.sum(rows * mask.view(-1), dim=0) / torch.sum(mask.view(-1), dim=0)


def by_token(z: torch.Tensor, t: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Both losses in f32, each of tokens with weights; the cross entropy is shifted by slices."""
    teacher = F.kl_div(F.log_softmax(z.float() / 2, -1), F.log_softmax(t.float() / 2, -1).exp(), reduction="none").sum(-1)
    labels = F.cross_entropy(z[:, :-1].float().flatten(0, 1), y[:, 1:].flatten(), reduction="sum") / 100
    return labels + (teacher * w).sum() / w.sum()


def mean(z: torch.Tensor, t: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    capped = 5 * torch.tanh(z / 5)
    teacher = F.kl_div(F.log_softmax(capped, -1), F.softmax(t, -1)) * 512
    return teacher + F.cross_entropy(capped.flatten(0, 1), y.flatten(), label_smoothing=0.1)


def soft(z: torch.Tensor, t: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(z.flatten(0, 1), F.softmax(t.flatten(0, 1) / 2, -1))


TEACHERS = {one.__name__: one for one in (mixed, log_target, forward_kl, by_token, mean, soft)}


class Distilled(nn.Module):
    """A head that learns from a wider one, or from logits that are given."""

    def __init__(self, name: str, is_given: bool = False, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(512, 16, dtype=dtype)
        self.head = nn.Linear(16, 512, bias=name == "mixed", dtype=dtype)
        self.loss, self.is_given = TEACHERS[name], is_given
        if not is_given:
            self.wide = nn.Embedding(512, 24, dtype=dtype).requires_grad_(False)
            self.teacher = nn.Linear(24, 512, bias=name == "soft", dtype=dtype).requires_grad_(False)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor, teacher: torch.Tensor | None = None) -> torch.Tensor:
        if teacher is None:
            with torch.no_grad():
                teacher = self.teacher(self.wide(ids))
        return self.loss(self.head(self.embedding(ids)), teacher, labels, weights)


@pytest.mark.parametrize("form", ["mixed given", "log_target", "forward_kl", "by_token bf16", "mean", "soft"])
def test_teacher(tmp_path: Path, form: str) -> None:
    """The loss and the gradient of the student's hidden states have the bits of the whole."""
    torch.manual_seed(3)
    name, *words = form.split()
    is_narrow = "bf16" in words
    model = Distilled(name, "given" in words, torch.bfloat16 if is_narrow else torch.float32)
    (loss, whole), (chunked_loss, chunked) = (train(tmp_path, model, chunk, lr=1000) for chunk in ("off", "64"))
    assert chunked_loss == loss
    assert torch.equal(chunked["embedding.weight"], whole["embedding.weight"])
    assert not torch.equal(whole["embedding.weight"], model.embedding.weight)
    change = (whole["head.weight"] - model.head.weight).float().abs().max().item()
    difference = (chunked["head.weight"] - whole["head.weight"]).float().abs().max().item()
    assert difference <= (8e-3 * change if is_narrow else 1e-6 * change + 1e-8)


def test_blocks(tmp_path: Path) -> None:
    """The head's gradient in bf16 is computed by blocks of classes, and then differs by a rounding."""
    torch.manual_seed(3)
    model = Form("sliced_gather", torch.bfloat16)
    (loss, whole), (blocks_loss, blocks) = train(tmp_path, model, "off"), train(tmp_path, model, "64,blocks")
    assert blocks_loss == loss
    assert torch.equal(blocks["embedding.weight"], whole["embedding.weight"])
    change = (whole["head.weight"] - model.head.weight).float().abs().max()
    assert ((blocks["head.weight"] - whole["head.weight"]).float().abs().max() <= 8e-3 * change).item()
