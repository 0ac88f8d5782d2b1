# SPDX-License-Identifier: Apache-2.0
"""llmq: Qwen2.5 in an engine of its own, in C++ with CUDA graphs, on 1 to 8 GPUs of a machine. States are in bfloat16."""

from pathlib import Path

import torch

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
    return Run(
        name=f"{row['gpu']} {row['model']} 1 x {gpus}, {micro_batches} x {row['micro_batch']}",
        shape=llama(row["model"].lower(), dtype=torch.bfloat16, fused=True, loss=torch.bfloat16),
        batch=int(row["micro_batch"]),
        sequence=int(row["seq"]),
        nodes=1,
        ranks=gpus,
        cluster=preset(PRESETS[row["gpu"]]),
        program="graphs",
        options=("--strategy=zero1", "--clip-norm=1"),
        micro_batches=micro_batches,
        rate=float(row["agg_tok_s_reported"]) / gpus,
    )
