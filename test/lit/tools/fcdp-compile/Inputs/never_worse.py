# SPDX-License-Identifier: Apache-2.0
"""Compiles each step of a folder with auto and with every preset, and compares the predicted times."""

import argparse
import itertools
import re
import subprocess
import sys
from pathlib import Path

PRESETS = ["zero1", "zero2", "zero3", "hpz", "fcdp", "ddp", "hsdp", "mics"]
# Predictions are printed with four digits.
TOLERANCE = 1.001


def compile_step(step: Path, strategy: str, cluster: str, micro_batches: int) -> str:
    command = ["fcdp-compile", step, f"--strategy={strategy}", f"--cluster={cluster}"]
    command += [f"--micro-batches={micro_batches}", "-o", step.with_suffix(".o")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clusters", nargs="+", required=True)
    parser.add_argument("--micro-batches", type=int, nargs="+", required=True)
    args = parser.parse_args()
    shardings, cases, failures = set(), 0, 0
    for step, cluster, count in itertools.product(sorted(args.folder.glob("*.mlir")), args.clusters, args.micro_batches):
        outputs = {strategy: compile_step(step, strategy, cluster, count) for strategy in [*PRESETS, "auto"]}
        seconds = {strategy: float(re.search(r"predicted +(\S+) s", text)[1]) for strategy, text in outputs.items()}
        best = min(seconds, key=seconds.get)
        cases += 1
        if seconds["auto"] > TOLERANCE * seconds[best]:
            failures += 1
            print(f"{step.stem} on {cluster}, {count} micro-batches: auto takes {seconds['auto']} s, {best} {seconds[best]} s")
        cut = re.search(r"sharded over a node|replicated on every", outputs["auto"])
        shardings.add({"sharded over a node": "node", "replicated on every": "none"}[cut[0]] if cut else "world")
    print(f"auto is the fastest, or as fast, in {cases - failures} cases; it takes shardings {' '.join(sorted(shardings))}")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
