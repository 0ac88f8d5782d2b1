# SPDX-License-Identifier: Apache-2.0
"""Plans each step of a folder with auto and with every preset, and compares the mean predicted times."""

import argparse
import itertools
import json
import subprocess
import sys
from pathlib import Path

PRESETS = ["zero1", "zero2", "zero3", "hpz", "fcdp", "ddp", "hsdp", "mics"]
# If plans differ by less, auto takes the one with the least memory.
TOLERANCE = 1.001


def simulate(step: Path, cluster: str, micro_batches: int) -> dict[str, dict]:
    """Returns the report of each strategy."""
    command = ["fcdp-sim", step, f"--compare={','.join([*PRESETS, 'auto'])}", f"--cluster={cluster}"]
    command += [f"--micro-batches={micro_batches}", "--json"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {report["strategy"]: report for report in json.loads(output)["steps"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clusters", nargs="+", required=True)
    parser.add_argument("--micro-batches", type=int, nargs="+", required=True)
    args = parser.parse_args()
    shardings, cases, failures = set(), 0, 0
    for step, cluster, count in itertools.product(sorted(args.folder.glob("*.mlir")), args.clusters, args.micro_batches):
        reports = simulate(step, cluster, count)
        seconds = {strategy: report["mean"] for strategy, report in reports.items()}
        best = min(seconds, key=seconds.get)
        cases += 1
        if seconds["auto"] > TOLERANCE * seconds[best]:
            failures += 1
            print(f"{step.stem} on {cluster}, {count} micro-batches: auto takes {seconds['auto']} s, {best} {seconds[best]} s")
        shardings.update(bucket["sharding"] for bucket in reports["auto"]["buckets"])
    print(f"auto is the fastest, or as fast, in {cases - failures} cases; it takes shardings {' '.join(sorted(shardings))}")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
