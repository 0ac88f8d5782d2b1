# SPDX-License-Identifier: Apache-2.0
"""VectorLM: which models fit on 1 to 8 A100, A40 and T4 under FSDP, trained whole and with LoRA.

The program is that of commit d397488b, which added the table in April 2024 (PyTorch 2.2.1, Transformers of at most
4.39).

Its text says that sequences are as long as each model allows, but the configuration of the same commit has max_seq_len:
128. With Mistral's 32,768 tokens and a batch of 8, no device would hold the logits, so 128 it was. All tokens are 0.

A rate needs two steps that begin, and the first update comes with the third. So a run has fit if it can compute one
batch and keep its gradients. There are no states of an optimizer then. A run without a rate has failed in some way: its
table does not tell a lack of memory from another failure.
"""

from pathlib import Path

import torch

import gpt
from fsdp1 import BFLOAT16, count_root
from runs import Run, Source, preset, read_table
from shapes import llama, mixtral
from steps import Shape, count_parameters

PRESETS = {"A100-SXM4-80GB": "a100-80gb", "A40": "a40-rdma", "T4": "t4"}
MODELS = {"Llama-2-7b": "llama2-7b", "Llama-2-13b": "llama2-13b", "Mistral-7B-v0.1": "mistral-7b", "gemma-2b": "gemma-2b"}
SEQUENCE = 128
# Tokens that are all alike choose the same two experts, and the loop over the experts skips the other six.
LOADS = (1, 1)
FLOAT32 = 4


def load(folder: Path) -> Source:
    return Source("vectorlm", [make_run(row) for row in read_table(folder, "vectorlm_fit_a100_a40_t4.csv")])


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
        # Its policy wraps each layer of a model and, in it, each module whose weight is trained.
        options=("--strategy=zero3", "--optimizer=sgd", "--remat=unit", f"--wrap={'unit' if lora else 'module'}"),
        fits=row["fits"] == "1",
        kept=count_root(shape, gpus) if lora else count_gradients(shape, gpus),
    )


def count_gradients(shape: Shape, gpus: int) -> float:
    """Returns the bytes of whole gradients in bfloat16, which no_sync leaves on each rank, less the plan's shards in
    float32.

    Experts without tokens have no gradients.
    """
    trained = count_parameters(shape) - getattr(shape, "idle_parameters", 0)
    return (BFLOAT16 - FLOAT32 / gpus) * trained


def make_shape(model: str, lora: int) -> Shape:
    adapted = {"lora": lora, "adapted": "q v"} if lora else {}  # PEFT's default for these models
    if model.startswith("Mixtral"):
        return mixtral("mixtral-8x7b", dtype=torch.bfloat16, loads=LOADS, **adapted)
    if model in MODELS:
        return llama(MODELS[model], dtype=torch.bfloat16, **adapted)
    # OPT-350m's embedding is half as wide, which saves 24 million of 355 million parameters. Two projections more are
    # adapted.
    return gpt.Shape(f"opt-350m-bf16-lora{lora}", 1024, 16, 24, vocabulary=50272, lora=lora, dtype=torch.bfloat16)
