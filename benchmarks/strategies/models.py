# SPDX-License-Identifier: Apache-2.0
"""Steps for the benchmark, with about ten million float32 parameters and 4 sequences of 64 tokens per rank."""

import os
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch

import fcdp

ROOT = Path(__file__).resolve().parents[2]
BATCH, TIME, VOCABULARY = 4, 64, 2048


@dataclass(frozen=True)
class Step:
    archive: Path
    inputs: list[str]
    """Values of fcdp-run --input."""


def make_llama() -> torch.nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    shapes = dict(hidden_size=384, intermediate_size=1024, num_hidden_layers=5, num_attention_heads=6, num_key_value_heads=2)
    return LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=TIME, use_cache=False, **shapes))


def make_gpt2() -> torch.nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    shapes = dict(n_embd=384, n_layer=5, n_head=6, n_positions=TIME)
    dropouts = dict(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, use_cache=False, **shapes, **dropouts))


class Loss(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, labels=labels, use_cache=False).loss


def export_example(folder: Path) -> Step:
    command = [sys.executable, ROOT / "examples/gpt/export.py", "--out", folder]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    tokens = folder / "tokens.u16"
    return Step(folder / "step.pt2", [f"ids={tokens}:u16", f"labels={tokens}:u16+1"])


def export_transformers(make, folder: Path) -> Step:
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    ids = torch.randint(VOCABULARY, (BATCH, TIME))
    fcdp.export(Loss(make()), (ids, ids.clone()), folder / "step.pt2")
    return Step(folder / "step.pt2", ["ids=random:1", "labels=random:2"])


MODELS = {
    "gpt": export_example,
    "llama": lambda folder: export_transformers(make_llama, folder),
    "gpt2": lambda folder: export_transformers(make_gpt2, folder),
}
