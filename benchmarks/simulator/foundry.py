# SPDX-License-Identifier: Apache-2.0
"""Compares with MosaicML's table of FSDP runs (llm-foundry, scripts/train/benchmarking): tokens per second and GPU.

Each kind of GPU has three constants, the efficiencies of docs/cluster.md for large products, fused attention and memory
bandwidth. They are fitted to every other row of the kind and judged on the rest.
"""

import csv
import itertools
import os
import statistics
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gpt import Shape
from simulation import Goal, Part, Row, Simulator, load_preset

Run = dict[str, str]
PRESETS = {"a100_40gb": "a100-40gb", "a100_80gb": "a100-80gb", "h100_80gb": "h100"}
FITTED = {  # the constants, with the values that are tried
    "compute_efficiency": np.arange(30, 100) / 100,
    "attention_efficiency": np.arange(5, 75) / 100,
    "memory_efficiency": np.arange(10, 19) / 20,  # copies of large arrays reach about 0.9
}
GOAL = 0.1
# Width, heads and layers of MPT (llm-foundry, scripts/train/yamls/pretrain). Its loss is one fused kernel on logits in
# bfloat16.
MODELS = {
    name: Shape(f"mpt-{name}", width, heads, layers, vocabulary=50368, loss=torch.bfloat16)
    for name, width, heads, layers in [
        ("125m", 768, 12, 12), ("350m", 1024, 16, 24), ("760m", 1536, 12, 24), ("1b", 2048, 16, 24),
        ("3b", 2560, 20, 32), ("7b", 4096, 32, 32), ("13b", 5120, 40, 40), ("30b", 7168, 56, 48), ("70b", 8192, 64, 80),
    ]
}  # fmt: skip


def predict(simulator: Simulator, cluster: dict[str, Any], run: Run) -> float:
    """Returns the predicted tokens per second and GPU. FSDP's collectives are flat."""
    gpus = int(run["gpus"])
    options = [f"--nodes={max(1, gpus // 8)}", f"--ranks-per-node={min(gpus, 8)}", "--strategy=zero3", "--collectives=flat",
               f"--micro-batches={run['gradaccum']}"]  # fmt: skip
    if run["act_ckpt"] == "True":
        options.append("--remat=unit")
    step = simulator.run(MODELS[run["model"]], int(run["microbatch"]), int(run["seqlen"]), cluster, *options)
    return step["tokens"]["per_second"] / gpus


def make_row(simulator: Simulator, cluster: dict[str, Any], run: Run) -> Row:
    name = (f"{run['gpu']:<9} {run['model']:>4} sequence {run['seqlen']:>5} GPUs {run['gpus']:>3} micro-batches "
            f"{run['gradaccum']:>2} of {run['microbatch']:>3}{' checkpointed' if run['act_ckpt'] == 'True' else ''}")  # fmt: skip
    note = "ran in fp8, predicted in bf16" if run["precision"] == "amp_fp8" else ""
    return Row(name, float(run["tok_per_s_gpu"]), predict(simulator, cluster, run), note)


def predict_all(simulator: Simulator, cluster: dict[str, Any], runs: list[Run]) -> list[Row]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda run: make_row(simulator, cluster, run), runs))


def median_error(rows: list[Row]) -> float:
    return statistics.median(abs(row.error) for row in rows)


def with_constants(cluster: dict[str, Any], constants: tuple[float, ...]) -> dict[str, Any]:
    return {**cluster, "device": {**cluster["device"], **dict(zip(FITTED, constants))}}


def linearize(simulator: Simulator, cluster: dict[str, Any], runs: list[Run], at: tuple[float, ...]) -> list[list[float]]:
    """Linearizes the ratio of predicted to measured time, as a function of 1 and the inverse of each constant.

    Returns the coefficients of each run. They hold near `at`, and everywhere if computation hides all communication.
    """
    changed = [tuple(0.9 * value if i == j else value for j, value in enumerate(at)) for i in range(len(at))]
    sampled = [
        [row.published / row.predicted for row in predict_all(simulator, with_constants(cluster, point), runs)]
        for point in (at, *changed)
    ]
    linear = []
    for base, *slower in zip(*sampled):
        factors = [(time - base) / (1 / (0.9 * value) - 1 / value) for time, value in zip(slower, at)]
        linear.append([base - sum(factor / value for factor, value in zip(factors, at)), *factors])
    return linear


def fit(simulator: Simulator, cluster: dict[str, Any], runs: list[Run]) -> dict[str, Any]:
    """Returns the cluster with the constants of least median error."""
    device = cluster["device"]
    given = {"attention_efficiency": 0.4 * device["compute_efficiency"], **device}
    constants = tuple(given[key] for key in FITTED)
    for _ in range(4):
        linear = np.array(linearize(simulator, cluster, runs, constants))
        candidates = np.array(list(itertools.product(*FITTED.values())))
        times = linear[:, 0] + (1 / candidates) @ linear[:, 1:].T
        errors = np.median(abs(1 / times - 1), axis=1)
        before, constants = constants, tuple(candidates[errors.argmin()].tolist())
        print(f"{cluster['name']}: {dict(zip(FITTED, constants))}, median error {errors.min():.1%}", flush=True)
        if before == constants:
            break
    return with_constants(cluster, constants)


def validate(simulator: Simulator, table: Path, refit: bool) -> Part:
    part = Part("llm-foundry, FULL_SHARD", "tokens per second and GPU: measured, predicted")
    with table.open() as file:
        runs = [run for run in csv.DictReader(file) if run["sharding"] == "FULL_SHARD"]
    judged: list[Row] = []
    for gpu, preset in PRESETS.items():
        cluster, of_kind = load_preset(preset), [run for run in runs if run["gpu"] == gpu]
        if refit:
            # There is no rate of fp8 to fit, so these rows are left out.
            cluster = fit(simulator, cluster, [run for run in of_kind[::2] if run["precision"] != "amp_fp8"])
        rows = predict_all(simulator, cluster, of_kind)
        for row in rows[::2]:
            row.note = (row.note + "; fitted").removeprefix("; ")
        part.rows += rows
        judged += rows[1::2]
        constants = ", ".join(f"{key} {cluster['device'].get(key)}" for key in FITTED)
        part.remarks.append(
            f"{gpu}: {constants}: median error {median_error(rows[::2]):.1%} of the {len(rows[::2])} rows of the fit, "
            f"{median_error(rows[1::2]):.1%} of the {len(rows[1::2])} others"
        )
    found = median_error(judged)
    part.goals.append(Goal(f"median error at most {GOAL:.0%} of the rows that were not fitted", f"{found:.1%}", found <= GOAL))
    return part
