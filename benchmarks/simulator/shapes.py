# SPDX-License-Identifier: Apache-2.0
"""Models that several sources ran, by the sizes in their published configurations."""

from dataclasses import replace
from typing import Any, TypeVar

import torch

from llama import Llama
from mixtral import Mixtral

T = TypeVar("T", bound=Llama)

LLAMAS = {
    # name: width, heads, layers, inner, vocabulary, then options
    "llama2-7b": (4096, 32, 32, 11008, 32000, {}),
    "llama2-13b": (5120, 40, 40, 13824, 32000, {}),
    "llama2-34b": (8192, 64, 48, 22016, 32000, {"key_heads": 8}),
    "llama2-70b": (8192, 64, 80, 28672, 32000, {"key_heads": 8}),
    "llama3-8b": (4096, 32, 32, 14336, 128256, {"key_heads": 8}),
    "llama3-70b": (8192, 64, 80, 28672, 128256, {"key_heads": 8}),
    "mistral-7b": (4096, 32, 32, 14336, 32000, {"key_heads": 8}),
    "internlm-7b": (4096, 32, 32, 11008, 103168, {"bias": True}),
    "internlm-20b": (5120, 40, 60, 13824, 103168, {}),
    "gemma-2b": (2048, 8, 18, 16384, 256000, {"key_heads": 1, "head_width": 256, "tied": True}),
    "qwen2.5-0.5b": (896, 14, 24, 4864, 151936, {"key_heads": 2, "bias": True, "tied": True}),
    "qwen2.5-1.5b": (1536, 12, 28, 8960, 151936, {"key_heads": 2, "bias": True, "tied": True}),
    "qwen2.5-3b": (2048, 16, 36, 11008, 151936, {"key_heads": 2, "bias": True, "tied": True}),
    "qwen2.5-7b": (3584, 28, 28, 18944, 152064, {"key_heads": 4, "bias": True}),
    "qwen2.5-14b": (5120, 40, 48, 13824, 152064, {"key_heads": 8, "bias": True}),
    "qwen2.5-32b": (5120, 40, 64, 27648, 152064, {"key_heads": 8, "bias": True}),
    # The shapes that nanotron's scaling benchmark calls 1B to 80B
    "nanotron-1b": (2048, 32, 16, 8192, 131072, {"tied": True}),
    "nanotron-3b": (3072, 32, 28, 8192, 131072, {"tied": True}),
    "nanotron-8b": (4096, 32, 32, 14336, 131072, {}),
}


MIXTRALS = {
    "mixtral-8x7b": (4096, 32, 32, 14336, 32000, {"key_heads": 8}),
}


def llama(name: str, **options: Any) -> Llama:
    """Returns the shape of a model of the table. Its name tells the options, so that each has an export of its own."""
    *sizes, given = LLAMAS[name]
    return mark(Llama(name, *sizes, **{**given, **options}))


def mixtral(name: str, **options: Any) -> Mixtral:
    """Returns the shape of a mixture of experts, as `llama` does of other models."""
    *sizes, given = MIXTRALS[name]
    shape = Mixtral(name, *sizes, **{**given, **options})
    loads = "" if shape.loads == Mixtral.loads else "-loads" + "".join(f"-{load}" for load in shape.loads)
    marked = mark(shape)
    return replace(marked, name=marked.name + loads)


def mark(shape: T) -> T:
    """Returns the shape with a name that tells its options."""
    adapted = "" if shape.adapted == Llama.adapted else f"-of-{shape.adapted.replace(' ', '-')}"
    marks = [("bf16", shape.dtype == torch.bfloat16), ("fused", shape.fused), (f"lora{shape.lora}{adapted}", bool(shape.lora)),
             ("narrowloss", shape.loss == torch.bfloat16)]  # fmt: skip
    return replace(shape, name="-".join([shape.name, *(mark for mark, holds in marks if holds)]))
