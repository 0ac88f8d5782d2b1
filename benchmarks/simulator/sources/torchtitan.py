# SPDX-License-Identifier: Apache-2.0
"""torchtitan: Llama 3 8B under FSDP2 on H100 (96 GB of HBM2e, 500 W)."""

from pathlib import Path
from typing import Any

from llama import Llama
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
    shape, tokens = llama("llama3-8b"), int(row["micro_batch"]) * int(row["seq"])
    return Run(
        name=f"8B {row['nodes']} x 8{' compiled' if compiled else ''}",
        shape=shape,
        batch=int(row["micro_batch"]),
        sequence=int(row["seq"]),
        nodes=int(row["nodes"]),
        ranks=int(row["gpus_per_node"]),
        cluster=capped(),
        program="fsdp2-compiled" if compiled else "fsdp2",
        options=("--strategy=zero3", "--collectives=flat", "--clip-norm=1", f"--remat={kept(shape, tokens)}"),
        rate=float(row["tok_s_per_gpu"]),
        memory=GIB * float(row["peak_gib"]),
    )


def capped() -> dict[str, Any]:
    """Returns H100 with 96 GB and a limit of 500 W in place of 700 W.

    Power grows with the cube of the clock, as voltage follows it.
    """
    cluster = preset("h100", memory=96e9, memory_bandwidth=2.4e12)
    cluster["device"]["sustained"] *= (500 / 700) ** (1 / 3)
    return cluster


def kept(shape: Llama, tokens: int) -> int:
    """Returns the bytes that its selective checkpointing keeps of the forward pass.

    These are each block's input, the result of attention with a number in float32 a head, and the results of every
    second product, then the logits in float32, of which the loss is computed.
    """
    heads = shape.heads * shape.head
    products = heads + 2 * (shape.key_heads or shape.heads) * shape.head + 2 * shape.inner + 2 * shape.width
    block = 2 * shape.width + 2 * heads + 4 * shape.heads + products  # half of the products, of 2 bytes an element
    return tokens * (shape.layers * block + 4 * shape.vocabulary)
