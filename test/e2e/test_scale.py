# SPDX-License-Identifier: Apache-2.0
"""Models that are too large for this machine: exported without weights, compiled, and not run."""

import subprocess
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import fcdp
from closed_forms import buckets
from harness import BIN, read_plan, tool
from memory import MOST_LOST, loss

LAYERS, HIDDEN, VOCABULARY = 4, 16384, 128256


def export_llama(archive: Path) -> int:
    """Writes a step with the shapes of Llama 3's 405B model; returns its number of parameters."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        num_hidden_layers=LAYERS,
        hidden_size=HIDDEN,
        intermediate_size=53248,
        num_attention_heads=128,
        num_key_value_heads=8,
        vocab_size=VOCABULARY,
    )

    class Step(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = LlamaForCausalLM(config)

        def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return self.model(input_ids=ids, labels=labels, use_cache=False).loss

    with FakeTensorMode():
        model = Step()
    ids = torch.zeros(1, 512, dtype=torch.int64)
    fcdp.export(model, (ids, ids.clone()), archive, check=False)
    return sum(parameter.numel() for parameter in model.parameters())


def test_model_without_weights(tmp_path: Path) -> None:
    archive, step = tmp_path / "step.pt2", tmp_path / "step.so"
    parameters = export_llama(archive)
    assert parameters > 15e9
    assert archive.stat().st_size < 20e6

    mesh = ["--nodes=128", "--ranks-per-node=8"]
    for strategy in ("fcdp", "zero2"):
        summary = tool(BIN / "fcdp-compile", archive, *mesh, f"--strategy={strategy}", "-o", step)
        assert loss(summary) < MOST_LOST
    compiled = subprocess.run(
        [BIN / "fcdp-compile", archive, *mesh, "-o", step], capture_output=True, text=True, check=True
    )
    assert "inv_freq' has no value, and the step cannot be run" in compiled.stderr
    assert loss(compiled.stdout) < MOST_LOST
    layout = {bucket.unit: bucket for bucket in buckets(read_plan(step))}
    assert len(layout) == LAYERS + 3  # embedding, layers, norm, head
    # All shards have equal sizes of a multiple of 64 bytes.
    padding = sum(bucket.padding_bytes for bucket in layout.values())
    assert padding < len(layout) * 128 * 8 * 64
    assert sum(bucket.gather_bytes for bucket in layout.values()) == 4 * parameters + padding

    ran = subprocess.run(
        [BIN / "fcdp-run", step, f"--weights={archive}", "--steps=1", "--input=ids=random:0", "--input=labels=random:0"],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 1
    assert ran.stderr.count("error:") == 1
    assert "has no value: the step was exported from a model without weights" in ran.stderr
