# SPDX-License-Identifier: Apache-2.0
"""A Llama of any size, and a folder with random weights for it, as Hugging Face stores a model."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

WEIGHTS_PER_FILE = 2**28


def configure(layers: int, width: int, vocabulary: int) -> LlamaConfig:
    """With 16 layers, a width of 2048 and 128,256 tokens it is Llama 3.2 1B, of 1.24 billion parameters."""
    return LlamaConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        intermediate_size=4 * width,
        num_attention_heads=width // 64,
        num_key_value_heads=max(width // 256, 1),
        vocab_size=vocabulary,
        tie_word_embeddings=True,
        dtype="bfloat16",
    )


class Step(nn.Module):
    def __init__(self, net: LlamaForCausalLM) -> None:
        super().__init__()
        self.net = net

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.net(input_ids=ids, labels=labels, use_cache=False).loss


def build(config: LlamaConfig) -> LlamaForCausalLM:
    """Returns the model with parameters in bfloat16."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        return LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)


def write_weights(config: LlamaConfig, folder: Path) -> int:
    """Makes the folder, with one file in memory at a time. Returns the number of parameters."""
    folder.mkdir(parents=True)
    config.save_pretrained(folder)
    with torch.device("meta"):
        shapes = {name: parameter.shape for name, parameter in build(config).named_parameters()}
    files: list[dict[str, torch.Size]] = [{}]
    for name, shape in shapes.items():
        if files[-1] and sum(map(torch.Size.numel, files[-1].values())) + shape.numel() > WEIGHTS_PER_FILE:
            files.append({})
        files[-1][name] = shape
    generator = torch.Generator().manual_seed(0)
    index = {}
    for number, members in enumerate(files):
        file = f"model-{number + 1:05}-of-{len(files):05}.safetensors"
        save_file({name: _random(shape, generator) for name, shape in members.items()}, folder / file, {"format": "pt"})
        index |= dict.fromkeys(members, file)
    count = sum(map(torch.Size.numel, shapes.values()))
    contents = {"metadata": {"total_size": 2 * count}, "weight_map": index}
    (folder / "model.safetensors.index.json").write_text(json.dumps(contents))
    return count


def _random(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    """Returns ones for the scales of norms."""
    if len(shape) == 1:
        return torch.ones(shape, dtype=torch.bfloat16)
    return torch.empty(shape, dtype=torch.bfloat16).normal_(0, 0.02, generator=generator)
