# SPDX-License-Identifier: Apache-2.0
"""InternEvo: InternLM-7B under ZeRO-1 on 8 to 1,024 A100 with four RoCE cards of 100 Gb/s a node, and the memory of
FSDP.

Its table of memory does not say what counts. All that the driver knows of is assumed.
"""

from pathlib import Path
from typing import Any

import torch

from runs import Run, Source, preset, read_table, with_network
from shapes import llama
from steps import count_parameters

NODE = 0.96 * 4 * 100e9 / 8  # bytes per second of the cards, less 4 % of headers
# The states are sharded over all ranks or over a node. Parameters are sent after the update, before anything else runs.
STRATEGIES = {"-1": ("--strategy=zero1", "--prefetch=0"), "8": ("--strategy=hsdp",)}


def load(folder: Path) -> Source:
    rows = read_table(folder, "internevo_7b_a100_roce.csv")
    known = [row for row in rows if row["tp"] == "1"]
    peaks = read_table(folder, "internevo_memory_a800.csv")
    sharded = [row for row in peaks if row["fsdp"] == "True" and row["tp"] == row["pp"] == "1"]
    return Source("internevo", [make_run(row) for row in known] + [make_peak(row) for row in sharded],
                  [f"{len(rows) - len(known)} rates with tensor parallelism",
                   f"{len(peaks) - len(sharded)} peaks with tensor or pipeline parallelism"])  # fmt: skip


def make_run(row: dict[str, str]) -> Run:
    nodes, ranks, micro_batches = int(row["nodes"]), int(row["gpus_per_node"]), int(row["micro_num"])
    shape = llama("internlm-7b", dtype=torch.bfloat16, fused=True)
    shards = ranks if row["zero1_group(-1=world)"] == "8" else nodes * ranks
    return Run(
        name=f"{row['table']} ZeRO-1 in {'a node' if row['zero1_group(-1=world)'] == '8' else 'all'} {nodes} x 8, {row['micro_num']} x "
        f"{row['micro_batch']}{' checkpointed' if row['act_ckpt'] == '1' else ''}",
        shape=shape,
        batch=int(row["micro_batch"]),
        sequence=int(row["seq"]),
        nodes=nodes,
        ranks=ranks,
        # Autograd adds gradients in bfloat16.
        cluster={**with_network(preset("a100-80gb"), NODE, "node"), "local_sums": {"by": "add", "bytes": 2}},
        program="eager",
        options=(
            *STRATEGIES[row["zero1_group(-1=world)"]],
            "--master=f32",
            "--accumulate=full",
            "--collectives=flat",
            "--clip-norm=1",
            f"--remat={'unit' if row['act_ckpt'] == '1' else 'none'}",
        ),
        micro_batches=micro_batches,
        # It accumulates in bfloat16, and makes shards of gradients in float32 in its update only. The plan accumulates
        # in float32 and has the shards beside activations.
        kept=-(2 + 4 / shards) * count_parameters(shape) if micro_batches > 1 else 0,
        rate=float(row["tok_s_per_gpu"]),
    )


def without_switches(cluster: dict[str, Any]) -> dict[str, Any]:
    """Returns the cluster with links that do not restrict the number of ranks.

    They do not change the memory of a step.
    """
    links = {name: {"bandwidth": cluster[name]["bandwidth"], "latency": cluster[name]["latency"], "sharing": "rank"}
             for name in ("inter", "intra", "h2d", "d2h")}  # fmt: skip
    return {**cluster, **links}


# Bytes per parameter of a shard in FSDPadaptOptimizer's step (v0.2.1): parameters and gradients in bfloat16, copies of
# both, two states and one list of temporaries of PyTorch's AdamW in float32.
UPDATING = 2 + 2 + 4 + 4 + 2 * 4 + 4


def make_peak(row: dict[str, str]) -> Run:
    gpus = int(row["gpus"])
    shape = llama(f"internlm-{row['model'].lower()}", dtype=torch.bfloat16, fused=True)
    return Run(
        name=f"{row['model']} FSDP on {gpus} A800",
        shape=shape,
        batch=int(row["micro_batch"]),
        sequence=2048,  # that of its configuration
        nodes=max(1, gpus // 8),
        ranks=min(gpus, 8),
        cluster=without_switches(preset("a100-80gb")),  # an A800 has slower links only
        program="fsdp1",
        options=("--strategy=zero3", "--master=f32", "--collectives=flat", "--clip-norm=1", "--remat=unit"),
        micro_batches=int(row["micro_num"]),
        memory=1e9 * float(row["gpu_memory_gb"]),
        counted="device",
        fits=True,
        updating=UPDATING * count_parameters(shape) / gpus,
    )
