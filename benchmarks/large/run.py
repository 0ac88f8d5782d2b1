#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a Llama in bfloat16 that is exported without weights, from a folder of sharded safetensors, beside plain
PyTorch.

The job has two nodes of two ranks on this machine. Prints what export, compilation, reading and steps take, and both
losses. Ends with an error if a loss differs from PyTorch's by more than 1 %, or if pages of the files take more memory
than a node's shards. The default is Llama 3.2 1B with random weights; it takes some 17 GB of memory and 10 GB of disk,
and several minutes a step on processors without instructions for bfloat16. `--steps=1 --tokens=2` is the shortest.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from transformers import LlamaForCausalLM
from transformers.utils import logging

import fcdp
from model import Step, build, configure, write_weights

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "bin"
NODES, LOCALS = 2, 2
RANKS = NODES * LOCALS
RATE = 0.1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--vocabulary", type=int, default=128256)
    parser.add_argument("--tokens", type=int, default=8, help="the length of a rank's sequence (default 8)")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "large", help="for files (default build/large)")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable_progress_bar()
    shutil.rmtree(args.folder, ignore_errors=True)
    weights = args.folder / "model"
    count = write_weights(configure(args.layers, args.width, args.vocabulary), weights)
    print(f"{count / 1e9:.3f} billion parameters", flush=True)
    inputs = write_inputs(args.folder, args)

    # In a process of its own, whose memory is that of the export.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        seconds, peak = pool.submit(export, args).result()
    print(f"exported in {seconds:.0f} s, {peak / 2**20:.0f} MiB at most", flush=True)
    begin = time.monotonic()
    step = compile_step(args.folder)
    print(f"compiled in {time.monotonic() - begin:.1f} s", flush=True)

    log = args.folder / "log.jsonl"
    pages = train([BIN / "fcdp-run", step, f"--weights={weights}", f"--steps={args.steps}", f"--json={log}", *inputs])
    steps = [json.loads(line) for line in log.read_text().splitlines()]
    print(f"pages of the files took {pages / 2**20:.0f} MiB at most, a node's shards {count * 2 / NODES / 2**20:.0f} MiB")
    wrong = pages > count * 2 / NODES
    for number, (line, expected) in enumerate(zip(steps, reference(args), strict=True)):
        difference = abs(line["loss"] - expected) / expected
        print(f"step {number + 1}: {line['seconds']:.1f} s, loss {line['loss']:.5f}, PyTorch {expected:.5f}", flush=True)
        wrong |= difference > 0.01
    return 1 if wrong else 0


def write_inputs(folder: Path, args: argparse.Namespace) -> list[str]:
    rows = np.random.default_rng(0).integers(0, args.vocabulary, (args.steps * RANKS, 1, args.tokens))
    np.save(folder / "ids.npy", rows)
    return [f"--input={name}={folder / 'ids.npy'}" for name in ("ids", "labels")]


def export(args: argparse.Namespace) -> tuple[float, int]:
    """Returns seconds, and the greatest number of bytes in memory."""
    begin = time.monotonic()
    with fcdp.empty_weights():
        model = Step(build(configure(args.layers, args.width, args.vocabulary)))
    ids = torch.zeros(1, args.tokens, dtype=torch.int64)
    fcdp.export(model, (ids, ids.clone()), args.folder / "step.pt2", check=False)
    return time.monotonic() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def compile_step(folder: Path) -> Path:
    step = folder / "step.so"
    options = (f"--nodes={NODES}", f"--ranks-per-node={LOCALS}", "--strategy=fcdp", f"--optimizer=sgd,lr={RATE}")
    subprocess.run([BIN / "fcdp-compile", folder / "step.pt2", *options, "-o", step], check=True, stdout=subprocess.DEVNULL)
    return step


def train(command: list[str | Path]) -> int:
    """Returns the greatest number of bytes that pages of the weights took over all ranks."""
    most = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as job:
        while job.poll() is None:
            most = max(most, sum(map(mapped_bytes, [job.pid, *children(job.pid)])))
            time.sleep(0.05)
    if job.returncode:
        raise subprocess.CalledProcessError(job.returncode, command)
    return most


def children(process: int) -> list[int]:
    try:
        return [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def mapped_bytes(process: int) -> int:
    """The process's part of the memory that mapped weights take."""
    total, counts = 0, False
    try:
        for line in Path(f"/proc/{process}/smaps").read_text().splitlines():
            if line[0].islower() or line[0].isdigit():
                counts = line.endswith(".safetensors")
            elif counts and line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    except OSError:
        pass  # It has ended.
    return total


def reference(args: argparse.Namespace) -> list[float]:
    model = Step(LlamaForCausalLM.from_pretrained(args.folder / "model", dtype=torch.bfloat16))
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    rows = torch.from_numpy(np.load(args.folder / "ids.npy")).view(args.steps, RANKS, 1, args.tokens)
    means = []
    for batches in rows:
        losses = []
        for ids in batches:
            loss = model(ids, ids)
            (loss / RANKS).backward()
            losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
        means.append(sum(losses) / RANKS)
    return means


if __name__ == "__main__":
    sys.exit(main())
