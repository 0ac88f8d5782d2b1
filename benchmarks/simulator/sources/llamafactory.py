# SPDX-License-Identifier: Apache-2.0
"""LLaMA-Factory: Qwen2.5 with Liger's kernels and checkpointed layers on 1 and 4 RTX 4090, as llmq's benchmarks ran it.

Settings are from the configurations there (llmq, b77d9691, benchmarks/*.yaml and *.json). If DeepSpeed keeps the
optimizer in host memory, no rate is predicted, because no plan does that; only whether devices and the host have enough
memory.

Inferred: gradients are clipped to a norm of 1 and AdamW is PyTorch's, Transformers' defaults. The log of the run with
32 billion parameters names line 534 of DeepSpeed's stage3.py, which says that at 0.16.4 to 0.17.1. These versions do
not know the configuration's bf16_master_weights_and_grads, so states are in float32.
"""

from pathlib import Path

import torch

from fused_blocks import LigerLlama, add_liger
from runs import Run, Source, preset, read_table
from shapes import llama
from steps import count_parameters

# Bytes per parameter in host memory under ZeRO-3 (0.16.9, stage3.py): parameters in bfloat16, master, gradient and both
# moments in float32, and partitions of gradients in bfloat16.
ON_HOST = 2 + 3 * 4 + 4 + 2
HOST = 500e9
"""The memory of the machine with 4 GPUs, in the source's words. The other machine's memory is not published."""
LIVE = 2 * 1e9
"""Bytes of parameters that may stay gathered (stage3_max_live_parameters)."""
FAILED_BATCH = 4
"""The batch of the run that failed, which only its configuration says."""


def load(folder: Path) -> Source:
    rows = read_table(folder, "llamafactory_4090.csv")
    plain = [row for row in rows if row["engine"] == "none"]
    sharded = [row for row in rows if row["engine"] == "deepspeed_zero3_offload"]
    offloaded = [row for row in rows if row["step_s"] and row["engine"] != "none"]
    return Source("llamafactory", [make_run(row) for row in plain] + [make_verdict(row) for row in sharded],
                  [f"{len(offloaded)} rates with the optimizer in host memory, where no plan has it",
                   f"{len(rows) - len(plain) - len(sharded)} run under ZeRO-2, with the optimizer in host memory"])  # fmt: skip


def make_shape(row: dict[str, str], batch: int) -> LigerLlama:
    return add_liger(llama(row["model"].lower(), dtype=torch.bfloat16, fused=True), batch, int(row["seq"]))


def make_run(row: dict[str, str]) -> Run:
    """Makes a run whose parameters, gradients and states are in bfloat16, on each rank."""
    gpus, batch, micro_batches = int(row["gpus"]), int(row["micro_batch"]), int(row["grad_accum"])
    shape = make_shape(row, batch)
    # DistributedDataParallel's buckets are a copy. The plan sums in float32: over ranks and, if both are several, over
    # micro-batches.
    gradients = 2 * (1 + (gpus > 1)) - 4 * (1 + (gpus > 1 and micro_batches > 1))
    return Run(
        name=f"{row['model']} 1 x {gpus}, {micro_batches} x {batch}",
        shape=shape,
        batch=batch,
        sequence=int(row["seq"]),
        nodes=1,
        ranks=gpus,
        cluster={**preset("rtx4090"), "local_sums": {"by": "add", "bytes": 2}},
        program="transformers",
        options=("--strategy=ddp", "--remat=unit", "--clip-norm=1"),
        micro_batches=micro_batches,
        rate=float(row["agg_tok_s"]) / gpus,
        kept=gradients * count_parameters(shape),
    )


def make_verdict(row: dict[str, str]) -> Run:
    """Makes a run under ZeRO-3 that has neither parameters nor gradients nor states on devices, but in host memory."""
    gpus, batch, fits = int(row["gpus"]), int(row["micro_batch"] or FAILED_BATCH), row["fits"] == "1"
    shape = make_shape(row, batch)
    host = gpus == 4
    return Run(
        name=f"{row['model']} 1 x {gpus}, {batch}, ZeRO-3 offload",
        shape=shape,
        batch=batch,
        sequence=int(row["seq"]),
        nodes=1,
        ranks=gpus,
        cluster=preset("rtx4090"),
        program="deepspeed",
        options=("--strategy=zero3", "--optimizer=sgd", "--remat=unit", "--wrap=checkpoint"),
        micro_batches=int(row["grad_accum"] or 1),
        fits=fits or None,
        # The plan has shards of parameters, and of gradients in float32.
        kept=LIVE - (2 + 4) * count_parameters(shape) / gpus,
        fits_host=fits if host else None,
        host=HOST,
        kept_on_host=ON_HOST * count_parameters(shape),
    )
