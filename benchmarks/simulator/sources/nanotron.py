# SPDX-License-Identifier: Apache-2.0
"""Nanotron on H100: the scaling benchmark of the Ultra-Scale Playbook, without tensor and pipeline parallelism.

Its network is described by its own table of collectives of 256 MB.
"""

from pathlib import Path
from typing import Any

import torch

from runs import GIB, Run, Source, preset, read_table
from shapes import llama
from steps import count_parameters

# Gradients are accumulated and reduced in float32, and the optimizer has a copy of the parameters in float32. Under
# ZeRO-1, parameters are gathered after the update, before anything else runs.
OPTIONS = ("--master=f32", "--reduce-dtype=f32", "--accumulate=full", "--collectives=flat", "--clip-norm=1")
STRATEGIES = {"0": ("--strategy=ddp",), "1": ("--strategy=zero1", "--prefetch=0")}
# The collectives of DDP and ZeRO-1. An all-reduce counts as a reduction and a gather, each with half of its time.
COLLECTIVES = {
    "0": {"all_gather": "all_reduce", "reduce_scatter": "all_reduce"},
    "1": {"all_gather": "all_gather", "reduce_scatter": "reduce_scatter"},
}
MESSAGE = 256 * 2**20
LOCAL = 8


def load(folder: Path) -> Source:
    measured = read_table(folder, "ultrascale_h100_busbw_256mb.csv")
    rows = read_table(folder, "ultrascale_h100_dp_only.csv")
    ran = [row for row in rows if row["ran"] == "1"]
    return Source("nanotron", [make_run(row, measured) for row in ran],
                  [f"{len(rows) - len(ran)} runs that crashed or had too little memory: the source does not say which"])  # fmt: skip


def make_run(row: dict[str, str], measured: list[dict[str, str]]) -> Run:
    nodes, micro_batches = int(row["nodes"]), int(row["grad_accum"])
    shape = llama(f"nanotron-{row['model'].lower()}", dtype=torch.bfloat16, fused=True)
    return Run(
        name=f"{row['model']} ZeRO-{row['zero']} {nodes} x 8, {row['grad_accum']} x {row['micro_batch']}",
        shape=shape,
        batch=int(row["micro_batch"]),
        sequence=int(row["seq"]),
        nodes=nodes,
        ranks=LOCAL,
        cluster=describe_network(measured, COLLECTIVES[row["zero"]]),
        program="eager",
        options=(*STRATEGIES[row["zero"]], *OPTIONS),
        micro_batches=micro_batches,
        rate=float(row["tok_s_per_gpu"]),
        # Its table of results has torch.cuda.max_memory_allocated() / 1024**3 as GB.
        memory=GIB * float(row["gpu_mem_gb"]),
        counted="allocated",
        kept=(2 + differ(row["zero"], micro_batches)) * count_parameters(shape),
    )


def differ(zero: str, micro_batches: int) -> int:
    """Returns the bytes per parameter of whole gradients in float32 that it has and the plan has not.

    It has them once, and reduces them in place. The plan has none if nothing is accumulated, and replicated gradients
    twice: the sum of a rank and that of all ranks. DistributedDataParallel's buckets in bfloat16 come on top.
    """
    if zero == "1":
        return 4 if micro_batches == 1 else 0
    return 0 if micro_batches == 1 else -4


def describe_network(measured: list[dict[str, str]], called: dict[str, str]) -> dict[str, Any]:
    """Returns a cluster with the bus bandwidths of the collectives that are `called`."""
    world = {
        collective: [[MESSAGE, int(row["nodes"]), 1e9 * float(row["gb_s"])] for row in measured if row["collective"] == name]
        for collective, name in called.items()
    }
    # FP32GradientAccumulator adds a gradient in bfloat16 to its sum.
    return {**preset("h100"), "collectives": {"world": world}, "local_sums": {"by": "add", "bytes": 4}}
