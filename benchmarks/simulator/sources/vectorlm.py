# SPDX-License-Identifier: Apache-2.0
"""VectorLM: which models fit on 1 to 8 A100, A40 and T4 under FSDP, trained whole and with LoRA.

Its text says that sequences are as long as each model allows, but the configuration of the same commit (d397488b) has
max_seq_len: 128. With Mistral's 32,768 tokens and a batch of 8, no device would hold the logits, so 128 it was.

A rate needs two steps that begin, and the first update comes with the third. So a run has fit if it can compute one batch and
keep its gradients, which no_sync leaves whole on each rank. There are no states of an optimizer then.
"""

from pathlib import Path

import torch

import gpt
from runs import Run, Source, preset, read_table
from shapes import llama
from steps import Shape

PRESETS = {"A100-SXM4-80GB": "a100-80gb", "A40": "a40-rdma", "T4": "t4"}
MODELS = {"Llama-2-7b": "llama2-7b", "Llama-2-13b": "llama2-13b", "Mistral-7B-v0.1": "mistral-7b", "gemma-2b": "gemma-2b"}
SEQUENCE = 128


def load(folder: Path) -> Source:
    rows = read_table(folder, "vectorlm_fit_a100_a40_t4.csv")
    dense = [row for row in rows if not row["model"].startswith("Mixtral")]
    return Source("vectorlm", [make_run(row) for row in dense],
                  [f"{len(rows) - len(dense)} runs of a mixture of experts, of which no shape is here"])  # fmt: skip


def make_run(row: dict[str, str]) -> Run:
    gpus, lora = int(row["gpus"]), 8 if row["mode"].startswith("lora") else 0
    shape = make_shape(row["model"], lora)
    return Run(
        name=f"{row['gpu']} {row['model']} {row['mode'].split()[0]} 1 x {gpus}",
        shape=shape,
        batch=int(row["micro_batch"]),
        sequence=SEQUENCE,
        nodes=1,
        ranks=gpus,
        cluster=preset(PRESETS[row["gpu"]]),
        program="fsdp1",
        options=("--strategy=zero3", "--optimizer=sgd", "--remat=unit"),
        fits=row["fits"] == "1",
        # Whole gradients in bfloat16 in place of shards in float32. LoRA's are small.
        kept=0 if lora else (2 - 4 / gpus) * count_parameters(shape),
    )


def count_parameters(shape: Shape) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in shape.make(1).parameters())


def make_shape(model: str, lora: int) -> Shape:
    if model in MODELS:
        return llama(MODELS[model], dtype=torch.bfloat16, lora=lora)
    # OPT-350m's embedding is half as wide, which saves 24 million of 355 million parameters.
    return gpt.Shape(f"opt-350m-bf16-lora{lora}", 1024, 16, 24, vocabulary=50272, lora=lora, dtype=torch.bfloat16)
