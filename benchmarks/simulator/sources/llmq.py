# SPDX-License-Identifier: Apache-2.0
"""llmq: Qwen2.5 in an engine of its own, in C++ with CUDA graphs, on 1 to 8 GPUs of a machine. States are in bfloat16."""

from pathlib import Path

import torch

from fused_blocks import PackedLlama, pack
from runs import Run, Source, preset, read_table
from shapes import llama

PRESETS = {"H100": "h100", "RTX4090": "rtx4090"}
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
        # Its products add to the sums of gradients (matmul with accumulate).
        cluster={**preset(PRESETS[row["gpu"]]), "local_sums": {"by": "product", "bytes": 2}},
        program="graphs",
        options=("--strategy=zero1", "--clip-norm=1"),
        micro_batches=micro_batches,
        rate=float(row["agg_tok_s_reported"]) / gpus,
        # It sums gradients of a rank in bfloat16 and reduces them in place. The plan sums in float32, and has the shard of what it
        # has reduced, too.
        kept=(2 - 4 - 4 / gpus) * shape.parameters,
        in_place={"aten._softmax.default": logits},
    )


def make_shape(row: dict[str, str]) -> PackedLlama:
    """Returns the shape with the loss in the run's chunks."""
    chunks = next((int(flag.split("=")[1]) for flag in row["flags"].split() if flag.startswith("--lmhead-chunks=")), 1)
    return pack(llama(row["model"].lower(), dtype=torch.bfloat16, fused=True), chunks)
