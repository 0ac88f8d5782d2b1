# SPDX-License-Identifier: Apache-2.0
"""Fits a device's efficiency constants to measured runs of FSDP, and says how well they predict others.

    .venv/bin/python benchmarks/simulator/llm_foundry.py RUNS.csv

RUNS.csv is the table of MosaicML's llm-foundry (scripts/train/benchmarking), one run a row. The step is an analytic
one, with the formulas of lib/Cluster: layers of MPT (no biases, flash attention), gathers by flat rings, each behind
the computation of the layer before. Constants are fitted to every other row of a kind of GPU, and judged on the rest.
"""

import argparse
import csv
import itertools
import statistics
from dataclasses import dataclass
from pathlib import Path

import yaml

CLUSTERS = Path(__file__).parents[2] / "cluster"
PRESETS = {"a100_40gb": "a100-40gb", "a100_80gb": "a100-80gb", "h100_80gb": "h100"}
# d_model and layers (llm-foundry, scripts/train/yamls/pretrain).
SHAPES = {
    "125m": (768, 12), "350m": (1024, 24), "760m": (1536, 24), "1b": (2048, 24), "3b": (2560, 32),
    "7b": (4096, 32), "13b": (5120, 40), "30b": (7168, 48), "70b": (8192, 80),
}  # fmt: skip
VOCABULARY = 50368
# What flash attention reaches of a large product's rate: kAttentionShare.
ATTENTION_SHARE = 0.4


@dataclass
class Device:
    """`flops` and `bandwidth` a second and `launch` in seconds, with the shares of docs/cluster.md taken off."""

    flops: float
    bandwidth: float
    launch: float

    def product(self, m, n, k):
        """Seconds of a product in bf16; those of its two gradients take as long."""
        return 2 * m * n * k / self.flops + self.memory(2 * (m * n + m * k + n * k), 1)

    def attention(self, batch, rows, d, products, tensors):
        """Seconds of flash attention with a causal mask, that reads and writes so many tensors of batch x rows x d."""
        flops = products * batch * rows * rows * d  # half of 2: the mask
        return flops / (self.flops * ATTENTION_SHARE) + self.memory(2 * tensors * batch * rows * d, 1)

    def memory(self, bytes_moved, operators):
        return bytes_moved / self.bandwidth + operators * self.launch


def ring(cluster, nodes, part):
    """Seconds of an all-gather over all ranks of parts of `part` bytes: costOfFlatRing."""
    local, inter, intra = cluster["ranks_per_node"], cluster["inter"], cluster["intra"]
    steps = nodes * local - 1
    shared = {"rank": 1 / local, "node": 1}[inter["sharing"]]
    latency = (nodes - 1) * inter["latency"] + (steps - nodes + 1) * intra["latency"]
    return latency + max(steps * part * shared / inter["bandwidth"] if nodes > 1 else 0, steps * part / intra["bandwidth"])


def layer(device, batch, rows, d):
    """Seconds of a layer forward, backward, and what is computed again in the backward pass under checkpointing.

    The last product is not: torch.utils.checkpoint stops when it has the last tensor that the backward pass reads.
    """
    tokens, activation = batch * rows, 2 * batch * rows * d
    shapes = [(tokens, 3 * d, d), (tokens, d, d), (tokens, 4 * d, d), (tokens, d, 4 * d)]
    forward = sum(device.product(m, n, k) for m, n, k in shapes)
    backward = 2 * forward
    forward += device.attention(batch, rows, d, 2, 4)
    backward += device.attention(batch, rows, d, 5, 8)
    # 2 norms (2 + 2 activations), 2 sums (3 + 3), GELU on 4 times the width (8); backward 3 + 3, 3 + 3 and 12.
    forward += device.memory(18 * activation, 5)
    again = forward - device.product(*shapes[-1]) - device.memory(3 * activation, 1)
    return forward, backward + device.memory(24 * activation, 5), again


def step(device, cluster, run):
    """Seconds of one optimizer step."""
    d, layers = SHAPES[run["model"]]
    ranks, batch, rows = int(run["gpus"]), int(run["microbatch"]), int(run["seqlen"])
    nodes = max(1, ranks // cluster["ranks_per_node"])
    reduced = 2 if run["mp_mode"] == "PURE" else 4

    def gather(elements):
        return ring(cluster, nodes, 2 * elements / ranks)

    def reduce(elements):
        return ring(cluster, nodes, reduced * elements / ranks)

    forward, backward, again = layer(device, batch, rows, d)
    if run["act_ckpt"] == "True":
        backward += again
    weights = 12 * d * d
    micro = layers * (max(forward, gather(weights)) + max(backward, gather(weights) + reduce(weights)))
    # Embedding and head are one matrix, gathered once and hidden behind nothing; logits to f32, log-softmax and back
    # are 28 bytes each.
    micro += gather(VOCABULARY * d) + reduce(VOCABULARY * d)
    tokens = batch * rows
    micro += 3 * device.product(tokens, VOCABULARY, d) + device.memory(28 * tokens * VOCABULARY, 6)
    update = device.memory(7 * 4 * int(run["numparams"]) / ranks, 10)
    return int(run["gradaccum"]) * micro + update


def predict(device, cluster, run):
    """Tokens a second and GPU."""
    tokens = int(run["microbatch"]) * int(run["seqlen"]) * int(run["gradaccum"])
    return tokens / step(device, cluster, run)


def errors(device, cluster, runs):
    return [predict(device, cluster, run) / float(run["tok_per_s_gpu"]) - 1 for run in runs]


def median_error(*arguments):
    return statistics.median(map(abs, errors(*arguments)))


def make(cluster, compute, memory):
    """A device that reaches these shares of its peak rates."""
    device = cluster["device"]
    return Device(
        compute * float(device["flops"]["bf16"]), memory * float(device["memory_bandwidth"]), float(device["launch_latency"])
    )


def fit(cluster, runs):
    grid = itertools.product([x / 100 for x in range(40, 100, 2)], [x / 100 for x in range(30, 105, 5)])
    return min(grid, key=lambda shares: median_error(make(cluster, *shares), cluster, runs))


def load(preset):
    cluster = yaml.load((CLUSTERS / f"{preset}.yaml").read_text(), yaml.SafeLoader)
    for link in ("inter", "intra"):  # to YAML 1.1, 25e9 is a text
        cluster[link].update({key: float(cluster[link][key]) for key in ("bandwidth", "latency")})
    return cluster


def report(runs, device, cluster):
    for run, error in zip(runs, errors(device, cluster, runs)):
        print(f"  {run['model']:>5} sequence {run['seqlen']:>5} GPUs {run['gpus']:>3} micro-batch {run['microbatch']:>3} "
              f"checkpointing {run['act_ckpt']:>5} measured {run['tok_per_s_gpu']:>7} error {error:+.1%}")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--verbose", action="store_true", help="print every run")
    options = parser.parse_args()
    with options.runs.open() as file:
        rows = [row for row in csv.DictReader(file) if row["sharding"] == "FULL_SHARD" and row["precision"] != "amp_fp8"]
    judged = []
    for gpu, preset in PRESETS.items():
        cluster = load(preset)
        runs = [row for row in rows if row["gpu"] == gpu]
        shares = fit(cluster, runs[::2])
        fitted = make(cluster, *shares)
        given = make(cluster, *(float(cluster["device"][key]) for key in ("compute_efficiency", "memory_efficiency")))
        judged += errors(given, cluster, runs[1::2])
        print(f"{gpu}, {len(runs)} runs: compute {shares[0]}, memory {shares[1]} fit half of them with a median error of "
              f"{median_error(fitted, cluster, runs[::2]):.1%}; of the others {median_error(fitted, cluster, runs[1::2]):.1%}, "
              f"with the preset's {median_error(given, cluster, runs[1::2]):.1%}")  # fmt: skip
        if options.verbose:
            report(runs, given, cluster)
    print(f"all: median error of the others with the presets' constants {statistics.median(map(abs, judged)):.1%}")


main()
