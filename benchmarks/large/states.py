#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a Llama in bfloat16 on one rank, with AdamW's states and masters in files.

Prints the bytes of the device and in files, the memory of the process, and the seconds and losses of steps.
The default is a Llama of 1.04 billion parameters with random weights, on a device of 4 GiB. It takes 5 GB of memory and
17 GB of disk, and about a minute a step on two processors without instructions for bfloat16. Ends with an error if the
process takes more memory than the arena and 1 GB, or the device's peak is not what was planned.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from model import configure, write_weights
from run import BIN, ROOT, export, write_inputs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--tokens", type=int, default=64, help="the length of a sequence (default 64)")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--states", default="file", help="as fcdp-compile --states has it (default file)")
    parser.add_argument("--device-memory", type=int, default=4 << 30, help="in bytes (default 4 GiB)")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "large", help="for files (default build/large)")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    shutil.rmtree(args.folder, ignore_errors=True)
    weights, step, log = args.folder / "model", args.folder / "step.so", args.folder / "log.jsonl"
    count = write_weights(configure(args.layers, args.width, args.vocabulary), weights)
    inputs = write_inputs(args.folder, args)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        pool.submit(export, args).result()
    options = ("--nodes=1", "--ranks-per-node=1", "--strategy=zero3", "--prefetch=0", "--optimizer=adamw,lr=1e-4")
    options += ("--master=f32", "--loss-chunk=64", f"--states={args.states}", f"--device-memory={args.device_memory}")
    tool = BIN / "fcdp-compile"
    subprocess.run([tool, args.folder / "step.pt2", *options, "-o", step], check=True, stdout=subprocess.DEVNULL)
    plan = json.loads(subprocess.run([tool, step, "--emit=plan-json"], check=True, capture_output=True).stdout)
    device, files = (plan[key] / 1e9 for key in ("device_bytes", "file_bytes"))
    print(f"{count / 1e9:.3f} billion parameters: {device:.2f} GB of the device, {files:.2f} GB in files", flush=True)

    command = [BIN / "fcdp-run", step, f"--weights={weights}", f"--steps={args.steps}", f"--json={log}", *inputs]
    job = subprocess.Popen([*command, f"--state-path={args.folder}"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(job.pid, 0)
    if status:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), command)
    peak = usage.ru_maxrss * 1024
    planned = plan["planned"]["device_bytes"]
    wrong = peak / 1e9 > device + 1
    for number, line in enumerate(map(json.loads, log.read_text().splitlines())):
        used = line["device_peak_bytes"]
        print(f"step {line['step']}: {line['seconds']:.1f} s, loss {line['loss']:.5f}, {used:,} bytes of the device")
        # The first step is recorded.
        wrong |= number > 0 and used != planned
    print(f"planned are {planned:,} bytes; the process took {peak / 1e9:.2f} GB")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
