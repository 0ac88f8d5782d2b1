#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Step times of strategies and prefetch distances, side by side on a slow network.

The example GPT runs on two hosts made of network namespaces, two ranks each, in rounds: every case once a round, so that a
machine that others use disturbs all of them alike. Needs root; all ranks share this machine's cores.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "netns"))

from hosts import why_impossible  # noqa: E402
from run import run  # noqa: E402

NODES, LOCAL = 2, 2
CASES = [("zero3", 0), ("zero3", 1), ("hpz", 1), ("fcdp", 0), ("fcdp", 1), ("zero2", 1)]


@dataclass
class Case:
    strategy: str
    prefetch: int
    step: Path
    seconds: list[float] = field(default_factory=list)
    """Of all steps but the first of a run, which fills pools."""
    log: list[dict[str, float]] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabits", type=int, default=200, help="of each host's uplink and direction (default 200)")
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--accumulate", default="sharded")
    parser.add_argument("--reductions", type=int, default=2, help="units reduced at once (default 2)")
    parser.add_argument("--steps", type=int, default=4, help="of a run, the first not counted (default 4)")
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    if reason := why_impossible():
        print(f"strategies: error: {reason}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(
            [sys.executable, ROOT / "examples/gpt/export.py", "--out", folder], check=True, stdout=subprocess.DEVNULL
        )
        cases = [compile_case(strategy, prefetch, folder, args) for strategy, prefetch in CASES]
        for _ in range(args.rounds):
            for case in cases:
                measure(case, folder, args)
    report(cases, args)
    return 0


def compile_case(strategy: str, prefetch: int, folder: Path, args: argparse.Namespace) -> Case:
    step = folder / f"{strategy}-{prefetch}.so"
    options = [f"--nodes={NODES}", f"--ranks-per-node={LOCAL}", f"--strategy={strategy}", f"--prefetch={prefetch}"]
    options += [f"--micro-batches={args.micro_batches}", f"--accumulate={args.accumulate}"]
    options += [f"--reductions={args.reductions}", "-o", str(step)]
    subprocess.run([ROOT / "build/bin/fcdp-compile", folder / "step.pt2", *options], check=True, stdout=subprocess.DEVNULL)
    return Case(strategy, prefetch, step)


def measure(case: Case, folder: Path, args: argparse.Namespace) -> None:
    tokens, log = folder / "tokens.u16", folder / "log.jsonl"
    command = [str(ROOT / "build/bin/fcdp-run"), str(case.step), f"--json={log}", f"--weights={folder / 'step.pt2'}"]
    command += [f"--steps={args.steps}", "--threads=1", f"--input=ids={tokens}:u16", f"--input=labels={tokens}:u16+1"]
    run(command, NODES, LOCAL, args.megabits)
    case.log = [json.loads(line) for line in log.read_text().splitlines()]
    case.seconds += [step["seconds"] for step in case.log[1:]]


def report(cases: list[Case], args: argparse.Namespace) -> None:
    print(
        f"example GPT, {NODES} x {LOCAL} ranks, {args.megabits} Mbit/s between nodes, {args.micro_batches} micro-batches, "
        f"accumulation {args.accumulate}; median of {len(cases[0].seconds)} steps\n"
    )
    print(f"{'strategy':>8} {'prefetch':>8} {'sent per node':>14} {'device peak':>12} {'host':>11} {'seconds':>8} {'ratio':>6}")
    first = statistics.median(cases[0].seconds)
    for case in cases:
        median, last = statistics.median(case.seconds), case.log[-1]
        print(
            f"{case.strategy:>8} {case.prefetch:>8} {last['inter_bytes_sent']:>14,} {last['device_peak_bytes']:>12,} "
            f"{last['host_cache_bytes']:>11,} {median:>8.3f} {median / first:>6.2f}"
        )


if __name__ == "__main__":
    sys.exit(main())
