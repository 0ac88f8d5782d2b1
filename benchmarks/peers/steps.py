# SPDX-License-Identifier: Apache-2.0
"""The models that all rows train. Programs of fcdp and of the peers build them with the same values."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "gpt"))

from model import GPT, GPTConfig  # noqa: E402

TIME = 64  # tokens of a sequence
BATCH = 4  # sequences of a micro-batch on a rank


class Gpt(GPT):
    """The example's GPT, whose loss is in float32 whatever the type of its parameters is."""

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten())


class Loss(nn.Module):
    """The same for a model of Transformers."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = self.model(input_ids=ids, use_cache=False).logits
        return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten())


def make_llama(vocabulary: int) -> nn.Module:
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    from transformers import LlamaConfig, LlamaForCausalLM

    layers = dict(num_hidden_layers=6, num_attention_heads=6, num_key_value_heads=2)
    shapes = dict(vocab_size=vocabulary, hidden_size=384, intermediate_size=1024, max_position_embeddings=TIME)
    return LlamaForCausalLM(LlamaConfig(**shapes, **layers))


def make_lora(vocabulary: int) -> nn.Module:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=8, lora_alpha=16, lora_dropout=0, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])
    return get_peft_model(make_llama(vocabulary), config)


MODELS: dict[str, Callable[[int], nn.Module]] = {
    "gpt": lambda vocabulary: Gpt(GPTConfig(vocabulary)),
    "llama": lambda vocabulary: Loss(make_llama(vocabulary)),
    "lora": lambda vocabulary: Loss(make_lora(vocabulary)),
    "tiny": lambda vocabulary: Gpt(GPTConfig(vocabulary, TIME, layers=2, heads=4, width=64)),
}


def build(name: str, vocabulary: int, seed: int) -> nn.Module:
    """Returns a model with float32 parameters, in training mode."""
    torch.manual_seed(seed)
    return MODELS[name](vocabulary).train()


def blocks(model: nn.Module) -> list[nn.Module]:
    """Returns the layers, which peers wrap one by one."""
    return next(list(part) for part in model.modules() if isinstance(part, nn.ModuleList))
