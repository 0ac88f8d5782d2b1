# SPDX-License-Identifier: Apache-2.0
"""llmq: Qwen2.5 in an engine of its own, in C++ with CUDA graphs, on 1 to 8 GPUs of a machine.

States are in bfloat16.
"""

from pathlib import Path
from typing import Any

import torch

from fused_blocks import PackedLlama, pack
from runs import Run, Source, preset, read_table
from shapes import llama
from steps import count_parameters

PRESETS = {"H100": "h100", "RTX4090": "rtx4090"}
# Attention is cuDNN's (cudnn_att.cpp). FlashAttention-3 (arXiv 2407.08608, figures 5 and 6) compares it with
# FlashAttention-2 on H100, heads of 128: operations per second forward, causal, and their ratio backward, not causal.
# llmq's backward pass is the deterministic one, which is slower than that by an amount that is not known. Heads of 64
# reach 0.8 of both passes together. On RTX 4090 cuDNN has FlashAttention-2's algorithm, as the preset.
KEYS = (512, 1024, 2048, 4096, 8192, 16384)
FORWARD = (315e12, 410e12, 484e12, 518e12, 529e12, 539e12)
BACKWARD_RATIO = (305 / 214, 408 / 260, 465 / 291, 499 / 310, 518 / 318, 516 / 322)
NARROW = 0.8
# Options that change when a result is computed or where a copy lies within the device, not what is computed.
HARMLESS = ("--lmhead-chunks", "--attn-bwd-chunks", "--memcpy-all-gather", "--memcpy-send-recv", "--all-to-all-reduce")


def load(folder: Path) -> Source:
    rows = read_table(folder, "llmq_native.csv")
    wide = [row for row in rows if row["matmul_dtype"] == "bf16"]
    here = [row for row in wide if row["gpu"] in PRESETS]
    plain = [row for row in here if all(flag.startswith(HARMLESS) for flag in row["flags"].split())]
    return Source("llmq", [make_run(row) for row in plain],
                  [f"{len(rows) - len(wide)} runs with products in 8 bits, which no export has",
                   f"{len(wide) - len(here)} runs on GPUs without a preset",
                   f"{len(here) - len(plain)} runs that recompute or offload parts in ways that no plan has"])  # fmt: skip


def make_run(row: dict[str, str]) -> Run:
    gpus = int(row["gpus"])
    micro_batches = int(row["grad_accum_implied"])
    shape = make_shape(row)
    # Its classifier writes the gradient of a chunk's logits over them.
    logits = 2 * shape.vocabulary * int(row["micro_batch"]) * int(row["seq"]) / shape.divided[0]
    return Run(
        name=f"{row['gpu']} {row['model']} 1 x {gpus}, {micro_batches} x {row['micro_batch']}",
        shape=shape,
        batch=int(row["micro_batch"]),
        sequence=int(row["seq"]),
        nodes=1,
        ranks=gpus,
        cluster=describe_kernels(row["gpu"]),
        program="graphs",
        options=("--strategy=zero1", "--clip-norm=1"),
        micro_batches=micro_batches,
        rate=float(row["agg_tok_s_reported"]) / gpus,
        # It sums gradients of a rank in bfloat16 and reduces them in place. The plan sums in float32, and has the shard
        # of what it has reduced, too.
        kept=(2 - 4 - 4 / gpus) * count_parameters(shape),
        in_place={"aten._softmax.default": logits},
    )


def describe_kernels(gpu: str) -> dict[str, Any]:
    """Returns the GPU with the rates of cuDNN's attention. Products accumulate gradients (matmul with accumulate)."""
    cluster = preset(PRESETS[gpu])
    if gpu == "H100":
        peak, backward = float(cluster["device"]["flops"]["bf16"]), cluster["device"]["attention"]["backward"]
        cluster["device"]["attention"].update(
            forward=[[keys, rate / peak] for keys, rate in zip(KEYS, FORWARD)],
            backward=[[keys, ratio * share] for (keys, share), ratio in zip(backward, BACKWARD_RATIO)],
            narrow=NARROW,
        )
    return {**cluster, "local_sums": {"by": "product", "bytes": 2}}


def make_shape(row: dict[str, str]) -> PackedLlama:
    """Returns the shape with the loss in the run's chunks."""
    chunks = next((int(flag.split("=")[1]) for flag in row["flags"].split() if flag.startswith("--lmhead-chunks=")), 1)
    return pack(llama(row["model"].lower(), dtype=torch.bfloat16, fused=True), chunks)
