# SPDX-License-Identifier: Apache-2.0
"""DeepCompile's baselines (arXiv 2504.09983): Llama 3 70B under ZeRO-3 and FSDP on 4 nodes of 8 H100.

The rates are read off a chart, to 1 or 2 %.
"""

from pathlib import Path

import torch

from runs import Run, Source, preset, read_table
from shapes import llama

# DeepSpeed keeps parameters in bfloat16 and states in float32, FSDP parameters in float32.
SYSTEMS = {
    "ZeRO3": ("deepspeed", torch.bfloat16),
    "ZeRO3+compile": ("deepspeed-compiled", torch.bfloat16),
    "FSDP": ("fsdp1", torch.float32),
    "FSDP+compile": ("fsdp1-compiled", torch.float32),
}


def load(folder: Path) -> Source:
    rows = read_table(folder, "deepcompile_h100.csv")
    known = [row for row in rows if row["system"] in SYSTEMS]
    return Source("deepcompile", [make_run(row) for row in known],
                  [f"{len(rows) - len(known)} runs of DeepCompile itself, which keeps parts of the parameters gathered"])  # fmt: skip


def make_run(row: dict[str, str]) -> Run:
    program, dtype = SYSTEMS[row["system"]]
    states = ("--master=f32",) if dtype == torch.bfloat16 else ("--reduce-dtype=bf16",)
    return Run(
        name=f"{row['system']} {row['micro_batch']} x {row['seq']}",
        shape=llama("llama3-70b", dtype=dtype),
        batch=int(row["micro_batch"]),
        sequence=int(row["seq"]),
        nodes=4,
        ranks=8,
        cluster=preset("h100"),
        program=program,
        # Both checkpoint modules that gather their own parameters, so these are gathered again for recomputation.
        options=("--strategy=zero3", "--collectives=flat", "--remat=unit", "--wrap=checkpoint", *states),
        rate=float(row["tok_s_per_gpu_chart_reading"]),
        unjudged="the network between its nodes is not published",
    )
