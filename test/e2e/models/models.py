# SPDX-License-Identifier: Apache-2.0
"""The models of the end-to-end tests, each with a recipe for its inputs. All are made from a seed."""

import functools
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

VOCABULARY = 96
BATCH = 2
TIME = 16
# On CUDA, short documents are computed in blocks of 128 tokens, four of them or more.
PACKED_TIME = 512


@dataclass(frozen=True)
class Entry:
    """`make()` builds the model, `inputs(rng)` one micro-batch as numpy arrays by input name."""

    make: Callable[[], nn.Module]
    inputs: Callable[[np.random.Generator], dict[str, np.ndarray]]


def build(name: str, seed: int = 0) -> nn.Module:
    """The model `name` with its initial weights, in training mode."""
    torch.manual_seed(seed)
    return MODELS[name].make().train()


# --- inputs ---


def token_inputs(rng: np.random.Generator) -> dict[str, np.ndarray]:
    tokens = rng.integers(0, VOCABULARY, (BATCH, TIME + 1))
    return {"ids": tokens[:, :-1], "labels": tokens[:, 1:]}


def masked_inputs(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Rows of any length up to TIME."""
    lengths = rng.integers(1, TIME + 1, (BATCH, 1))
    return {**token_inputs(rng), "mask": (np.arange(TIME) < lengths).astype(np.int64)}


def hf_inputs(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Hugging Face models shift the labels themselves."""
    tokens = rng.integers(0, VOCABULARY, (BATCH, TIME))
    return {"input_ids": tokens, "labels": tokens}


def padded_inputs(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Rows that end in padding, which has no label and which the loss of a router leaves out."""
    made = hf_inputs(rng)
    mask = np.arange(TIME) < rng.integers(2, TIME + 1, (BATCH, 1))
    return {"input_ids": made["input_ids"], "attention_mask": mask.astype(np.int64), "labels": np.where(mask, made["labels"], -100)}


def packed_inputs(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Rows of documents of any length, and some of one token. Their tokens are more than those of other models."""
    positions = []
    for _ in range(BATCH):
        lengths = rng.permutation([1, 1, 127, 128, 200, *rng.integers(2, 40, PACKED_TIME)])
        positions.append(np.concatenate([np.arange(length) for length in lengths])[:PACKED_TIME])
    # One row begins with a long document.
    positions[-1] = np.concatenate([np.arange(300), positions[-1]])[:PACKED_TIME]
    tokens = rng.integers(0, VOCABULARY, (BATCH, PACKED_TIME + 1))
    return {"ids": tokens[:, :-1], "labels": tokens[:, 1:], "positions": np.stack(positions)}


def vector_inputs(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        "x": rng.standard_normal((4, 8), dtype=np.float32),
        "y": rng.standard_normal((4, 3), dtype=np.float32),
    }


def image_inputs(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        "image": rng.standard_normal((4, 3, 8, 8), dtype=np.float32),
        "label": rng.integers(0, 10, (4,)),
    }


def rotary_inputs(rng: np.random.Generator) -> dict[str, np.ndarray]:
    angles = rng.standard_normal(4, dtype=np.float32)
    return vector_inputs(rng) | {
        "phase": np.exp(1j * angles).astype(np.complex64)[:, None],
        "time": np.float32(rng.random()),
    }


# --- hand-written models ---


def gpt(tied_head: bool = False) -> nn.Module:
    example = _gpt_example()
    config = example.GPTConfig(VOCABULARY, context=TIME, layers=2, heads=4, width=64, tied_head=tied_head)
    return example.GPT(config)


def checkpointed(model: nn.Module) -> nn.Module:
    """Asks that the blocks of a GPT are computed again in the backward pass."""
    for block in model.blocks:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
    return model


def _gpt_example() -> Any:
    """examples/gpt/model.py, which is not a package."""
    if "gpt_example" not in sys.modules:
        path = Path(__file__).resolve().parents[3] / "examples" / "gpt" / "model.py"
        spec = importlib.util.spec_from_file_location("gpt_example", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["gpt_example"] = module
        spec.loader.exec_module(module)
    return sys.modules["gpt_example"]


class Autocast(nn.Module):
    """float32 parameters, bfloat16 matrix products."""

    def __init__(self, body: nn.Module):
        super().__init__()
        self.body = body

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.body(ids, labels)


class Float16(nn.Module):
    """A GPT in float16 whose loss is computed in float32, as one writes it for training with a loss scale."""

    def __init__(self, body: nn.Module):
        super().__init__()
        self.body = body.to(torch.float16)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(gpt_logits(self.body, ids).float().flatten(0, 1), labels.flatten())


def gpt_logits(body: Any, ids: torch.Tensor) -> torch.Tensor:
    x = body.wte(ids) + body.wpe(torch.arange(ids.shape[1], device=ids.device))
    for block in body.blocks:
        x = block(x)
    return body.lm_head(body.ln_f(x))


class Distilled(nn.Module):
    """A GPT that learns from labels and from a frozen GPT."""

    def __init__(self) -> None:
        super().__init__()
        self.body = gpt()
        example = _gpt_example()
        config = example.GPTConfig(VOCABULARY, context=TIME, layers=1, heads=2, width=32, tied_head=False)
        self.teacher = example.GPT(config).requires_grad_(False)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            target = F.softmax(gpt_logits(self.teacher, ids) / 2, -1)
        logits = gpt_logits(self.body, ids)
        divergence = F.kl_div(F.log_softmax(logits / 2, -1), target, reduction="batchmean") * 4 / ids.shape[1]
        return 0.5 * F.cross_entropy(logits.flatten(0, 1), labels.flatten()) + 0.5 * divergence


class TinyParams(nn.Module):
    """Parameters with fewer elements than ranks: a scalar scale, a bias of 3."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.shift = nn.Parameter(torch.zeros(1))
        self.fc = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(self.fc(x * self.scale) + self.shift, y)


class Masked(nn.Module):
    """The mean over the tokens that a mask has, which is one of nothing, NaN, for an empty mask."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 32)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32), nn.GELU()) for _ in range(2))
        self.head = nn.Linear(32, VOCABULARY)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        for block in self.blocks:
            x = x + block(x)
        losses = F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten(), reduction="none")
        return (losses * mask.flatten()).sum() / mask.sum()


class Packed(nn.Module):
    """Attention within the documents of rows in float16, with the masks of Transformers; the loss is in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 32)
        self.layers = nn.ModuleList(nn.ModuleDict({"qkv": nn.Linear(32, 64, bias=False), "out": nn.Linear(32, 32)}) for _ in range(2))
        self.head = nn.Linear(32, VOCABULARY)
        self.to(torch.float16)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        documents = (torch.diff(positions, prepend=positions[:, :1] - 1) != 1).cumsum(-1)
        mask = (documents[:, :, None] == documents[:, None, :]) & (positions[:, None, :] <= positions[:, :, None])
        x = self.embedding(ids)
        for layer in self.layers:
            heads = layer["qkv"](x).unflatten(-1, (8, 8)).transpose(1, 2)
            query, key, value = heads.split((4, 2, 2), 1)
            y = F.scaled_dot_product_attention(query, key, value, mask[:, None], enable_gqa=True)
            x = x + layer["out"](y.transpose(1, 2).flatten(-2))
        return F.cross_entropy(self.head(x).float().flatten(0, 1), labels.flatten())


class MlpDropout(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.25), nn.Linear(32, 3), nn.Dropout(0.1))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(self.layers(x), y)


class Normed(nn.Module):
    """An RMS norm without a weight, and one with it."""

    def __init__(self) -> None:
        super().__init__()
        bare, weighted = nn.RMSNorm(16, elementwise_affine=False), nn.RMSNorm(16)
        self.layers = nn.Sequential(nn.Linear(8, 16), bare, nn.Tanh(), weighted, nn.Linear(16, 3))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(self.layers(x), y)


class ConvNetBn(nn.Module):
    """Batch norm changes three buffers a step."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.bn2 = nn.BatchNorm2d(16)
        self.head = nn.Linear(16, 10)

    def forward(self, image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(image))), 2)
        x = F.relu(self.bn2(self.conv2(x))).mean((2, 3))
        return F.cross_entropy(self.head(x), label)


class ResidualBn(nn.Module):
    """Blocks that batch norm divides."""

    class Block(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
            self.bn = nn.BatchNorm2d(channels)
            self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.conv2(F.gelu(F.gelu(self.bn(self.conv1(x)))))

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.ModuleList(self.Block(8) for _ in range(2))
        self.head = nn.Linear(8, 10)

    def forward(self, image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        x = self.stem(image)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x.mean((2, 3))), label)


class UnusedParam(nn.Module):
    """One layer that the loss never reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.spare = nn.Linear(16, 16)
        self.fc2 = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(self.fc2(torch.tanh(self.fc1(x))), y)


class Rotary(nn.Module):
    """Rotates pairs of features by complex products, a persistent buffer and an input among them, as far as a time
    says."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.fc2 = nn.Linear(16, 3)
        self.register_buffer("rotation", torch.polar(torch.ones(8), torch.arange(8.0)))
        self.register_buffer("scale", torch.linspace(1, 2, 8) + 0j, persistent=False)

    def forward(self, x: torch.Tensor, phase: torch.Tensor, time: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        pairs = torch.view_as_complex(self.fc1(x).unflatten(-1, (8, 2)))
        turned = torch.view_as_real(pairs * self.rotation * self.scale * phase).flatten(-2)
        return F.mse_loss(self.fc2(turned * torch.cos(time)), y)


# --- models of other libraries, imported where used because they are slow to import ---


def hf_gpt2(dropout: float = 0.0) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=TIME,
        n_embd=64,
        n_layer=2,
        n_head=4,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    return GPT2LMHeadModel(config)


def hf_llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=TIME,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


def hf_mixtral() -> nn.Module:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        num_local_experts=4,
        output_router_logits=True,
        router_aux_loss_coef=0.1,
        max_position_embeddings=TIME,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    return MixtralForCausalLM(config)


def peft_lora() -> nn.Module:
    """Frozen base; lora_B starts at zero, so lora_A's first gradient is exactly zero."""
    from peft import LoraConfig, get_peft_model

    lora = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    return get_peft_model(hf_llama(), lora)


MODELS = {
    "masked": Entry(Masked, masked_inputs),
    "gpt": Entry(gpt, token_inputs),
    "gpt_tied": Entry(lambda: gpt(tied_head=True), token_inputs),
    "gpt_checkpointed": Entry(lambda: checkpointed(gpt()), token_inputs),
    "gpt_bf16": Entry(lambda: gpt().to(torch.bfloat16), token_inputs),
    "gpt_f16": Entry(lambda: Float16(gpt()), token_inputs),
    "gpt_autocast": Entry(lambda: Autocast(gpt()), token_inputs),
    "gpt_distilled": Entry(Distilled, token_inputs),
    "tiny_params": Entry(TinyParams, vector_inputs),
    "packed": Entry(Packed, packed_inputs),
    "mlp_dropout": Entry(MlpDropout, vector_inputs),
    "normed": Entry(Normed, vector_inputs),
    "convnet_bn": Entry(ConvNetBn, image_inputs),
    "residual_bn": Entry(ResidualBn, image_inputs),
    "unused_param": Entry(UnusedParam, vector_inputs),
    "rotary": Entry(Rotary, rotary_inputs),
    "hf_gpt2": Entry(hf_gpt2, hf_inputs),
    "hf_gpt2_dropout": Entry(lambda: hf_gpt2(dropout=0.1), hf_inputs),
    "hf_llama": Entry(hf_llama, hf_inputs),
    "hf_mixtral": Entry(hf_mixtral, padded_inputs),
    "peft_lora": Entry(peft_lora, hf_inputs),
}
