# SPDX-License-Identifier: Apache-2.0
"""The baselines of ZeRO++ (arXiv 2306.10209): GPT under ZeRO-3 on 24 nodes of 16 V100 with 100 to 800 Gb/s a node.

The rates are labels of a figure in TFLOPs, with 8 operations for a parameter and token: with 6, one of them would need
more than its network has. Layers, widths and the length of sequences are not published. The values here give the number
of parameters, on which the rates depend.

DeepSpeed gathers the parameters of each module by themselves. Before a module it waits for all gathers that it has
issued, and then issues the next one (fetch_sub_module in partitioned_param_coordinator.py), so one gather overlaps with
each module.
"""

from pathlib import Path
from typing import Any

import torch

from gpt import Shape
from runs import Run, Source, preset, read_table, with_network

# Width, heads and layers: 12 parameters for each layer and pair of width, and the embedding.
MODELS = {
    name: Shape(f"zeropp-{name.lower()}-f16-eager", width, heads, layers, vocabulary=50257, dtype=torch.float16,
                compute=torch.float16, eager=True)
    for name, width, heads, layers in [("18B", 6144, 48, 40), ("49B", 8192, 64, 60), ("91B", 10240, 80, 72), ("138B", 12288, 96, 76)]
}  # fmt: skip
SEQUENCE = 1024


def load(folder: Path) -> Source:
    rows = read_table(folder, "zeropp_v100.csv")
    plain = [row for row in rows if row["system"] == "ZeRO-3"]
    return Source("zeropp", [make_run(row) for row in plain],
                  [f"{len(rows) - len(plain)} runs of ZeRO++, which gathers 8 and reduces 4 bits in ways that no plan has"])  # fmt: skip


def make_run(row: dict[str, str]) -> Run:
    tokens = int(row["tokens_per_gpu"])
    return Run(
        name=f"{row['model']} 24 x 16, {row['node_gbps']} Gb/s, {tokens} tokens",
        shape=MODELS[row["model"]],
        batch=tokens // SEQUENCE,
        sequence=SEQUENCE,
        nodes=int(row["nodes"]),
        ranks=int(row["gpus_per_node"]),
        cluster=make_cluster(0.96 * float(row["node_gbps"]) * 1e9 / 8),
        program="deepspeed",
        options=("--strategy=zero3", "--collectives=flat", "--remat=unit", "--wrap=module", "--master=f32"),
        rate=1e12 * float(row["tflops_per_gpu"]) / (8 * 1e9 * float(row["model"].removesuffix("B"))),
        unjudged="the shapes of its models are not published",
    )


def make_cluster(bandwidth: float) -> dict[str, Any]:
    """Returns nodes of 16 V100, DGX-2, with so many bytes per second between them.

    Each GPU has its six links into the switches, and two GPUs share a slot of the host.
    """
    return with_network(preset("v100-32gb"), bandwidth, "node")
