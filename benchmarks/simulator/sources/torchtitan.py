# SPDX-License-Identifier: Apache-2.0
"""torchtitan: Llama 3 8B under FSDP2 on H100 (96 GB of HBM2e, 500 W)."""

from pathlib import Path

from runs import GIB, Run, Source, preset, read_table
from shapes import llama


def load(folder: Path) -> Source:
    rows = read_table(folder, "torchtitan.csv")
    narrow = [row for row in rows if "fp8" in row["options"]]
    unknown = [row for row in rows if not row["seq"]]
    return Source("torchtitan", [make_run(row) for row in rows if row not in narrow and row not in unknown],
                  [f"{len(narrow)} runs with products in 8 bits, which no export has",
                   f"{len(unknown)} run whose batch and sequence are not published"])  # fmt: skip


def make_run(row: dict[str, str]) -> Run:
    compiled = row["options"] == "compile"
    return Run(
        name=f"8B {row['nodes']} x 8{' compiled' if compiled else ''}",
        shape=llama("llama3-8b"),
        batch=int(row["micro_batch"]),
        sequence=int(row["seq"]),
        nodes=int(row["nodes"]),
        ranks=int(row["gpus_per_node"]),
        cluster=preset("h100", memory=96e9, memory_bandwidth=2.4e12),
        program="fsdp2-compiled" if compiled else "fsdp2",
        options=("--strategy=zero3", "--collectives=flat", "--clip-norm=1", "--remat=none"),
        rate=float(row["tok_s_per_gpu"]),
        memory=GIB * float(row["peak_gib"]),
    )
