#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares traffic, memory and time of strategies, planned and measured, on a slow network.

Models run on two hosts of two ranks each, made of network namespaces. Every case runs once per round, so that other
load on the machine affects all alike. Plans and predictions are those of fcdp-compile for the preset `cpu` with the
network's bandwidth. Ends with an error if bytes between nodes or in host memory differ from the plan, if the losses of
two strategies differ, or if device memory differs by more than 2 %. Needs root. All ranks share this machine's cores.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "netns"))

from hosts import describe_cluster, report_wrong, require_hosts  # noqa: E402
from models import MODELS, Step  # noqa: E402
from run import run  # noqa: E402

NODES, LOCAL = 2, 2
# Strategies with further options of fcdp-compile. Others are compared with the first.
CASES = {
    "zero3 in order": ["--strategy=zero3", "--prefetch=0", "--reductions=1"],
    "zero3": ["--strategy=zero3"],
    "hsdp": ["--strategy=hsdp"],
    "mics": ["--strategy=mics"],
    "ddp": ["--strategy=ddp"],
    "hpz": ["--strategy=hpz"],
    "fcdp": ["--strategy=fcdp"],
    "zero2": ["--strategy=zero2"],
    "auto": ["--strategy=auto"],
}


@dataclass
class Case:
    name: str
    object: Path
    sent: int
    """Planned bytes that each node sends per step. The next two are planned bytes of device memory and host memory."""
    device: int
    host: int
    predicted: float
    seconds: list[float] = field(default_factory=list)
    """Seconds of all steps but the first of each run, which fills pools."""
    log: list[dict[str, float]] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["gpt"])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--megabits", type=int, default=200, help="bandwidth of each host's uplink and direction (default 200)")
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--accumulate", default="sharded", help="accumulation mode of all cases, so that losses are equal (default sharded)")
    parser.add_argument("--steps", type=int, default=4, help="steps per run; the first is not counted (default 4)")
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    require_hosts("strategies")
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        cluster = describe_cluster(Path(name) / "cluster.yaml", args.megabits)
        for model in args.models:
            folder = Path(name) / model
            folder.mkdir()
            step = MODELS[model](folder)
            cases = [compile_case(case, step, cluster, folder, args) for case in args.cases]
            for _ in range(args.rounds):
                for case in cases:
                    measure(case, step, folder, args)
            report(model, cases, args)
            wrong += [f"{model}: {what}" for case in cases for what in compare(case, cases[0])]
    return report_wrong("strategies", wrong)


def compile_case(name: str, step: Step, cluster: Path, folder: Path, args: argparse.Namespace) -> Case:
    out = folder / f"{name.replace(' ', '-')}.so"
    options = [f"--cluster={cluster}", f"--nodes={NODES}", f"--ranks-per-node={LOCAL}", *CASES[name]]
    options += [f"--micro-batches={args.micro_batches}", "-o", str(out)]
    if args.micro_batches > 1:
        options.append(f"--accumulate={args.accumulate}")
    command = [ROOT / "build/bin/fcdp-compile", step.archive, *options]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    device, host = re.search(r"memory +device (\d+) .*host (\d+)", text).groups()
    sent = re.search(r"^step +(\d+)", text, re.MULTILINE)[1]
    return Case(name, out, int(sent), int(device), int(host), float(re.search(r"predicted +(\S+) s", text)[1]))


def measure(case: Case, step: Step, folder: Path, args: argparse.Namespace) -> None:
    log = folder / "log.jsonl"
    command = [str(ROOT / "build/bin/fcdp-run"), str(case.object), f"--json={log}", f"--weights={step.archive}"]
    command += [f"--steps={args.steps}", "--threads=1", *(f"--input={given}" for given in step.inputs)]
    run(command, NODES, LOCAL, args.megabits)
    case.log = [json.loads(line) for line in log.read_text().splitlines()]
    case.seconds += [line["seconds"] for line in case.log[1:]]


def compare(case: Case, first: Case) -> list[str]:
    """Returns the differences from the plan and from the first case."""
    last = case.log[-1]
    wrong = [
        f"{case.name}: {what} {measured:,}, planned {planned:,}"
        for what, measured, planned in [
            ("bytes between nodes", last["inter_bytes_sent"], case.sent),
            ("bytes of host memory", last["host_cache_bytes"], case.host),
        ]
        if measured != planned
    ]
    if abs(last["device_peak_bytes"] / case.device - 1) > 0.02:
        wrong.append(f"{case.name}: bytes of the device {last['device_peak_bytes']:,}, planned {case.device:,}")
    if [line["loss"] for line in case.log] != [line["loss"] for line in first.log]:
        wrong.append(f"{case.name}: other losses than {first.name}")
    return wrong


def report(model: str, cases: list[Case], args: argparse.Namespace) -> None:
    print(
        f"\n{model}: {NODES} x {LOCAL} ranks, {args.megabits} Mbit/s between nodes, {args.micro_batches} micro-batches, "
        f"accumulation {args.accumulate}; median of {len(cases[0].seconds)} steps"
    )
    print(f"{'':14} {'sent per node':>13} {'device peak':>12} {'of plan':>7} {'host':>11} {'predicted':>9} {'seconds':>8} {'ratio':>6}")
    first = statistics.median(cases[0].seconds)
    for case in cases:
        median, last = statistics.median(case.seconds), case.log[-1]
        print(
            f"{case.name:14} {last['inter_bytes_sent']:>13,} {last['device_peak_bytes']:>12,} "
            f"{last['device_peak_bytes'] / case.device:>7.4f} {last['host_cache_bytes']:>11,} {case.predicted:>9.2f} "
            f"{median:>8.2f} {median / first:>6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
