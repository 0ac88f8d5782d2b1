#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a step in a loop of PyTorch, and the same step in fcdp-run.

Both run the same compiled object of a GPT on the same rows, on two ranks of one thread, and rank 0 prints a line after
each step. A step's duration is the time between two lines, so that the data, the loop and the printing count. Jobs of
both alternate, so that a busy machine slows both. Prints the medians of durations, and of the processor's time for a
step on both ranks, which other programs disturb less, and their ratios. Nothing is asserted, because times depend on
the machine.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import fcdp

HERE = Path(__file__).resolve().parent
BIN = HERE.parents[1] / "build" / "bin"
sys.path.insert(0, str(HERE))

from job import make_model  # noqa: E402

RANKS = 2
# The first steps fill the pool and PyTorch's caches.
WARM_UP = 2


@dataclass(frozen=True)
class Measured:
    """A job's duration of each step, and its mean processor time of a step."""

    durations: list[float]
    processor_seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: .venv/bin/python benchmarks/loop/run.py --rounds 10",
    )
    sizes = {"layers": 4, "width": 256, "heads": 4, "context": 128, "batch": 8, "vocabulary": 1024}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"the {name} of the GPT example (default {default})")
    parser.add_argument("--steps", type=int, default=8, help=f"the number of measured steps of a job, after {WARM_UP} (default 8)")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    shape = {name: value for name, value in vars(args).items() if name not in ("steps", "rounds")}
    steps = args.steps + WARM_UP + 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder, shape, steps)
        loop_job(folder, 0, shape)
        jobs = {"fcdp-run": lambda: run_job(folder, steps), "loop": lambda: loop_job(folder, steps, shape)}
        measured: dict[str, list[Measured]] = {name: [] for name in jobs}
        for _ in range(args.rounds):
            for name, run in jobs.items():
                measured[name].append(run())
    print(f"{args.rounds} rounds of {args.steps} steps on {RANKS} ranks, seconds of a step (median, quartiles):")
    report("duration", {name: [time for job in found for time in job.durations] for name, found in measured.items()})
    report("processor", {name: [job.processor_seconds for job in found] for name, found in measured.items()})


def report(label: str, times: dict[str, list[float]]) -> None:
    for name, found in times.items():
        first, middle, last = statistics.quantiles(found, n=4) if len(found) > 1 else found * 3
        print(f"  {label:<9}  {name:<8}  {middle:.4f}  ({first:.4f} to {last:.4f})")
    ratio = statistics.median(times["loop"]) / statistics.median(times["fcdp-run"])
    print(f"  {label:<9}  ratio, loop / fcdp-run: {ratio:.4f}", flush=True)


def write_rows(folder: Path, shape: dict[str, int], steps: int) -> None:
    draw = np.random.default_rng(0)
    # fcdp-run gives each rank the rows of a batch; a DistributedSampler takes every second row. The work is the same.
    ids = draw.integers(shape["vocabulary"], size=(RANKS * steps, shape["batch"], shape["context"]))
    np.save(folder / "ids.npy", ids)
    np.save(folder / "labels.npy", np.roll(ids, -1, axis=2))
    model = make_model(shape)
    example = {name: torch.from_numpy(np.load(folder / f"{name}.npy")[0]) for name in ("ids", "labels")}
    fcdp.export(model, example, folder / "weights.pt2", check=False)


def run_job(folder: Path, steps: int) -> Measured:
    (step,) = (folder / "cache").glob("*.so")
    command = [BIN / "fcdp-run", step, f"--weights={folder / 'weights.pt2'}", f"--steps={steps}", "--threads=1"]
    command += ["--nodes=1", f"--ranks-per-node={RANKS}"]
    command += [f"--input={name}={folder / name}.npy" for name in ("ids", "labels")]
    return measure([(list(map(str, command)), {})])


def loop_job(folder: Path, steps: int, shape: dict[str, int]) -> Measured:
    command = [sys.executable, HERE / "job.py", folder / "cache", folder, steps, json.dumps(shape)]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    job = {"WORLD_SIZE": RANKS, "LOCAL_WORLD_SIZE": RANKS, "GROUP_RANK": 0, "GROUP_WORLD_SIZE": 1}
    job |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = [{**job, "RANK": rank, "LOCAL_RANK": rank} for rank in range(RANKS)]
    return measure([(list(map(str, command)), {key: str(value) for key, value in rank.items()}) for rank in ranks])


def measure(commands: list[tuple[list[str], dict[str, str]]]) -> Measured:
    """Starts ranks, or the process that does, and reads the lines of the first process."""
    processes = [
        subprocess.Popen(command, env=os.environ | variables, stdout=subprocess.PIPE, text=True)
        for command, variables in commands
    ]
    lines = []
    for line in processes[0].stdout or ():
        if line.startswith("step "):
            used = sum(processor_seconds(process.pid) for process in processes)
            lines.append((time.perf_counter(), used))
    if codes := [code for process in processes if (code := process.wait())]:
        sys.exit(f"a rank ended with code {codes[0]}")
    # The last line may come when ranks are about to end.
    lines = lines[WARM_UP - 1 : -1]
    if len(lines) < 2:
        return Measured([], 0)
    durations = [after - before for (before, _), (after, _) in zip(lines, lines[1:])]
    return Measured(durations, (lines[-1][1] - lines[0][1]) / len(durations))


def processor_seconds(pid: int) -> float:
    """Returns the processor time of a process and of the processes that it started; 0 if it has ended."""
    process = Path("/proc") / str(pid)
    try:
        # The fields follow the name, which may have blanks.
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        tasks = [(task / "children").read_text().split() for task in (process / "task").iterdir()]
    except OSError:
        return 0.0
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(processor_seconds(int(child)) for children in tasks for child in children)


if __name__ == "__main__":
    main()
