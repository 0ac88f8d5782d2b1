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
# d_model, layers, heads (llm-foundry, scripts/train/yamls/pretrain).
SHAPES = {
    "125m": (768, 12, 12), "350m": (1024, 24, 16), "760m": (1536, 24, 12), "1b": (2048, 24, 16), "3b": (2560, 32, 20),
    "7b": (4096, 32, 32), "13b": (5120, 40, 40), "30b": (7168, 48, 56), "70b": (8192, 80, 64),
}  # fmt: skip
VOCABULARY = 50368
# What flash attention reaches of a large product's rate: kAttentionShare.
ATTENTION_SHARE = 0.4


@dataclass
class Device:
    """`flops` and `bandwidth` a second, `launch` in seconds; `efficiency` and `half` as in docs/cluster.md."""

    flops: float
    bandwidth: float
    efficiency: float
    half: float
    launch: float

    def product(self, m, n, k, batch=1.0):
        """Seconds of a product in bf16."""
        size = 3 / (1 / m + 1 / n + 1 / k)
        flops = 2 * batch * m * n * k / (self.flops * self.efficiency * size / (size + self.half))
        return max(flops, 2 * batch * (m * n + m * k + n * k) / self.bandwidth) + self.launch

    def attention(self, batch, heads, rows, depth, products):
        """Seconds of flash attention with a causal mask; what it reads and writes is little beside it."""
        flops = products * batch * heads * rows * rows * depth  # half of 2: the mask
        return flops / (self.flops * self.efficiency * ATTENTION_SHARE) + self.launch

    def memory(self, bytes_moved, operators):
        return bytes_moved / self.bandwidth + operators * self.launch


def ring(cluster, nodes, part):
    """Seconds of an all-gather over all ranks of parts of `part` bytes: costOfFlatRing."""
    local, inter, intra = cluster["ranks_per_node"], cluster["inter"], cluster["intra"]
    steps = nodes * local - 1
    shared = {"rank": 1 / local, "node": 1}[inter["sharing"]]
    latency = (nodes - 1) * inter["latency"] + (steps - nodes + 1) * intra["latency"]
    return latency + max(steps * part * shared / inter["bandwidth"] if nodes > 1 else 0, steps * part / intra["bandwidth"])


def layer(device, batch, rows, d, heads):
    """Seconds of a layer forward, backward, and what is computed again in the backward pass under checkpointing.

    The last product is not: torch.utils.checkpoint stops when it has the last tensor that the backward pass reads.
    """
    tokens, activation = batch * rows, 2 * batch * rows * d
    shapes = [(tokens, 3 * d, d), (tokens, d, d), (tokens, 4 * d, d), (tokens, d, 4 * d)]
    forward = sum(device.product(m, n, k) for m, n, k in shapes)
    backward = sum(device.product(m, k, n) + device.product(k, n, m) for m, n, k in shapes)
    forward += device.attention(batch, heads, rows, d // heads, 2)
    backward += device.attention(batch, heads, rows, d // heads, 5)
    # 2 norms (2 + 2 activations), 2 sums (3 + 3), GELU on 4 times the width (8); backward 3 + 3, 3 + 3 and 12.
    forward += device.memory(18 * activation, 5)
    again = forward - device.product(*shapes[-1]) - device.memory(3 * activation, 1)
    return forward, backward + device.memory(24 * activation, 5), again


def step(device, cluster, run):
    """Seconds of one optimizer step."""
    d, layers, heads = SHAPES[run["model"]]
    ranks, batch, rows = int(run["gpus"]), int(run["microbatch"]), int(run["seqlen"])
    nodes = max(1, ranks // cluster["ranks_per_node"])
    elements = 12 * d * d
    reduced = 2 if run["mp_mode"] == "PURE" else 4
    gather, reduce = ring(cluster, nodes, 2 * elements / ranks), ring(cluster, nodes, reduced * elements / ranks)
    forward, backward, again = layer(device, batch, rows, d, heads)
    if run["act_ckpt"] == "True":
        backward += again
    tokens = batch * rows
    head = sum(device.product(*shape) for shape in itertools.permutations((tokens, VOCABULARY, d), 3) if shape[0] >= shape[1])
    # Logits to f32, log-softmax and back: 28 bytes each.
    head += device.memory(28 * tokens * VOCABULARY, 6)
    once = ring(cluster, nodes, 2 * VOCABULARY * d / ranks)
    micro = 2 * once + head + layers * (max(forward, gather) + max(backward, gather + reduce))
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


def fit(make, cluster, runs):
    grid = itertools.product([x / 100 for x in range(40, 100, 2)], range(0, 1300, 100))
    return min(grid, key=lambda constants: median_error(make(*constants), cluster, runs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("-v", action="store_true", help="print every run")
    options = parser.parse_args()
    with options.runs.open() as file:
        rows = [row for row in csv.DictReader(file) if row["sharding"] == "FULL_SHARD" and row["precision"] != "amp_fp8"]
    judged = []
    for gpu, preset in PRESETS.items():
        cluster = yaml.load((CLUSTERS / f"{preset}.yaml").read_text(), yaml.SafeLoader)
        given = {key: cluster["device"][key] for key in ("matmul_efficiency", "half_efficiency_size", "launch_latency", "memory_bandwidth")}
        given = {key: float(value) for key, value in given.items()}
        for link in ("inter", "intra"):
            cluster[link].update({key: float(cluster[link][key]) for key in ("bandwidth", "latency")})

        def make(efficiency, half):
            return Device(float(cluster["device"]["flops"]["bf16"]), given["memory_bandwidth"], efficiency, half, given["launch_latency"])

        runs = [row for row in rows if row["gpu"] == gpu]
        ours = make(given["matmul_efficiency"], given["half_efficiency_size"])
        constants = fit(make, cluster, runs[::2])
        fitted = make(*constants)
        judged += errors(ours, cluster, runs[1::2])
        print(f"{gpu}: {len(runs)} runs; preset: median error {median_error(ours, cluster, runs[1::2]):.1%}; "
              f"fitted to half of them: efficiency {constants[0]}, half size {constants[1]}, "
              f"median error {median_error(fitted, cluster, runs[::2]):.1%}, of the others {median_error(fitted, cluster, runs[1::2]):.1%}, "
              f"greatest {max(map(abs, errors(fitted, cluster, runs[1::2]))):.1%}")  # fmt: skip
        if options.v:
            for run, error in zip(runs, errors(fitted, cluster, runs)):
                print(f"  {run['model']:>5} seq {run['seqlen']:>5} gpus {run['gpus']:>3} micro {run['microbatch']:>3} "
                      f"ckpt {run['act_ckpt']:>5} measured {run['tok_per_s_gpu']:>7} mfu {run['mfu_pct']} error {error:+.1%}")  # fmt: skip
    print(f"presets, all kinds: median error {statistics.median(map(abs, judged)):.1%}")


main()
