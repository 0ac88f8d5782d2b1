# SPDX-License-Identifier: Apache-2.0
"""InternEvo: InternLM-7B under ZeRO-1 on 8 to 1,024 A100 with four RoCE cards of 100 Gb/s a node."""

from pathlib import Path

import torch

from runs import Run, Source, preset, read_table, with_network
from shapes import llama

NODE = 0.96 * 4 * 100e9 / 8  # bytes per second of the cards, less 4 % of headers
# The states are sharded over all ranks or over a node. Parameters are sent after the update, before anything else runs.
STRATEGIES = {"-1": ("--strategy=zero1", "--prefetch=0"), "8": ("--strategy=hsdp",)}


def load(folder: Path) -> Source:
    rows = read_table(folder, "internevo_7b_a100_roce.csv")
    known = [row for row in rows if row["tp"] == "1"]
    return Source("internevo", [make_run(row) for row in known], [f"{len(rows) - len(known)} runs with tensor parallelism"])


def make_run(row: dict[str, str]) -> Run:
    nodes = int(row["nodes"])
    return Run(
        name=f"{row['table']} ZeRO-1 in {'a node' if row['zero1_group(-1=world)'] == '8' else 'all'} {nodes} x 8, {row['micro_num']} x "
        f"{row['micro_batch']}{' checkpointed' if row['act_ckpt'] == '1' else ''}",
        shape=llama("internlm-7b", dtype=torch.bfloat16, fused=True),
        batch=int(row["micro_batch"]),
        sequence=int(row["seq"]),
        nodes=nodes,
        ranks=int(row["gpus_per_node"]),
        cluster=with_network(preset("a100-80gb"), NODE, "node"),
        program="eager",
        options=(
            *STRATEGIES[row["zero1_group(-1=world)"]],
            "--master=f32",
            "--accumulate=full",
            "--collectives=flat",
            "--clip-norm=1",
            f"--remat={'unit' if row['act_ckpt'] == '1' else 'none'}",
        ),
        micro_batches=int(row["micro_num"]),
        rate=float(row["tok_s_per_gpu"]),
    )
