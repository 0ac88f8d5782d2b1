# SPDX-License-Identifier: Apache-2.0
"""Checks that no schedule beats the bound, and prints how near the schedules come to it."""

import itertools
import re
import subprocess
import sys

STRATEGIES = ["zero3", "zero2", "hpz", "fcdp", "hsdp", "ddp", "auto"]
CLUSTERS = ["workstations", "h100", "h100-tcp"]


def predict(step: str, out: str, *options: str) -> tuple[float, float]:
    command = ["fcdp-compile", step, "--nodes=2", "--ranks-per-node=2", "-o", out, *options]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds, bound = re.search(r"predicted +(\S+) s", text), re.search(r"less than (\S+) s", text)
    return float(seconds[1]), float(bound[1])


step, out = sys.argv[1:]
runs = 0
for strategy, cluster, micro_batches in itertools.product(STRATEGIES, CLUSTERS, [1, 3]):
    options = [f"--strategy={strategy}", f"--cluster={cluster}", f"--micro-batches={micro_batches}"]
    seconds, bound = predict(step, out, *options)
    # Both are printed with four digits.
    assert seconds / 4 < bound <= seconds * 1.001, (options, seconds, bound)
    runs += 1
print(f"{runs} runs, none faster than its bound")
