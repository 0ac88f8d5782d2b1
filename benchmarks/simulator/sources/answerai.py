# SPDX-License-Identifier: Apache-2.0
"""Answer.AI's fsdp_qlora: LoRA of Llama 2 7B on two consumer cards under DDP and FSDP."""

from pathlib import Path

import torch

from fsdp1 import count_root
from runs import GIB, Run, Source, preset, read_table
from shapes import llama

RANK = 64  # fsdp_qlora's default of --lora_rank
STRATEGIES = {"DDP": "--strategy=ddp", "FULL_SHARD": "--strategy=zero3"}
PRESETS = {"RTX3090": "rtx3090", "RTX4090": "rtx4090", "A100-40GB-SXM": "a100-40gb", "H100-80GB-SXM": "h100"}


def load(folder: Path) -> Source:
    rows = read_table(folder, "answerai_fsdp_qlora.csv")
    wide = [row for row in rows if row["train_type"] == "LoRA"]
    here = [row for row in wide if row["cpu_offload"] == "0" and row["gpu"] in PRESETS]
    return Source("answerai", [make_run(row) for row in here],
                  [f"{len(rows) - len(wide)} runs with parameters in 4 bits, which no export has",
                   f"{len(wide) - len(here)} runs with parameters in host memory, or on GPUs without a preset"])  # fmt: skip


def make_run(row: dict[str, str]) -> Run:
    gpus = int(row["gpus"])
    shape = llama("llama2-7b", dtype=torch.bfloat16, lora=RANK)
    return Run(
        name=f"{row['gpu']} {row['sharding']} 1 x {gpus}, {row['micro_batch']} x {row['seq']}",
        shape=shape,
        batch=int(row["micro_batch"]),
        sequence=int(row["seq"]),
        nodes=1,
        ranks=gpus,
        cluster=preset(PRESETS[row["gpu"]]),
        program="transformers",
        options=(STRATEGIES[row["sharding"]], "--remat=unit"),
        rate=int(row["samples"]) * int(row["seq"]) / float(row["time_s"]) / gpus,
        memory=GIB * float(row["peak_gib"]),
        # Its policy wraps each layer and, in it, the factors.
        kept=count_root(shape, gpus) if row["sharding"] == "FULL_SHARD" else 0,
        unjudged="the bandwidth of its slow lanes is not known" if "slow lanes" in row["interconnect"] else "",
    )
