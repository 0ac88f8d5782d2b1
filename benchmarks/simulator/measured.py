#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares predicted and measured times of the example GPT on two hosts of two ranks, at several bandwidths.

    .venv/bin/python benchmarks/simulator/measured.py

Each round profiles one strategy (fcdp-run --profile), predicts all strategies from that profile with fcdp-sim, and runs
them all, so that other load on the machine affects all alike. Times are medians, and errors are medians over rounds.
Bytes between nodes and within, copies and host memory must equal the plan. Device memory must be within 2 % of it,
because kernels allocate some memory themselves. Needs root. All ranks share this machine's cores.
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
sys.path[:0] = [str(ROOT / "benchmarks" / name) for name in ("netns", "strategies")]

from hosts import describe_cluster, report_wrong, require_hosts  # noqa: E402
from models import MODELS, Step  # noqa: E402
from run import run  # noqa: E402

NODES, LOCAL = 2, 2
GOAL = 0.15  # allowed error relative to the measured step time
LOGGED = {"inter": "inter_bytes_sent", "intra": "intra_bytes_sent", "h2d": "h2d_bytes", "d2h": "d2h_bytes"}


@dataclass
class Case:
    strategy: str
    object: Path
    estimate: float
    """Predicted seconds without a profile."""
    plan: dict = field(default_factory=dict)
    """JSON of fcdp-sim in the last round."""
    last: dict = field(default_factory=dict)
    """Log entry of the last step."""
    measured: list[float] = field(default_factory=list)
    """Seconds by round; the same for the members below."""
    predicted: list[float] = field(default_factory=list)

    @property
    def error(self) -> float:
        return statistics.median(p / m - 1 for p, m in zip(self.predicted, self.measured))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabits", type=int, nargs="+", default=[50, 100, 200], help="bandwidths of a host's uplink (default 50 100 200)")
    parser.add_argument("--strategies", nargs="+", default=["zero3", "hpz", "fcdp"])
    parser.add_argument("--profiled", default="fcdp", help="the strategy that is profiled (default fcdp)")
    parser.add_argument("--steps", type=int, default=6, help="steps per run; the first is not counted (default 6)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="folder for profiles and steps (default: a temporary one)")
    args = parser.parse_args()
    require_hosts("measured")
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        step = MODELS["gpt"](folder)
        print(f"{'Mbit/s':>6} {'strategy':8} {'measured':>9} {'predicted':>9} {'error':>7} {'estimated':>9} {'inter bytes':>12} {'device':>11}")
        cases = [case for megabits in args.megabits for case in validate(step, megabits, folder, args, wrong)]
    worst = max(cases, key=lambda case: abs(case.error))
    print(f"{sum(abs(case.error) <= GOAL for case in cases)} of {len(cases)} within {GOAL:.0%}, worst {worst.error:+.1%}")
    return report_wrong("measured", wrong)


def validate(step: Step, megabits: int, folder: Path, args: argparse.Namespace, wrong: list[str]) -> list[Case]:
    cluster = describe_cluster(folder / f"cluster-{megabits}.yaml", megabits)
    profile = folder / f"profile-{megabits}.json"

    def simulate(strategy: str, *options: str) -> dict:
        text = tool("fcdp-sim", step.archive, f"--cluster={cluster}", f"--strategy={strategy}", "--json", *options)
        return json.loads(text)["steps"][0]

    profiled = compile_step(step, args.profiled, cluster, folder)
    cases = [
        Case(strategy, compile_step(step, strategy, cluster, folder), simulate(strategy)["seconds"])
        for strategy in args.strategies
    ]
    for _ in range(args.rounds):
        execute(step, profiled, megabits, folder, args, f"--profile={profile}")
        for case in cases:
            case.plan = simulate(case.strategy, f"--profile={profile}")
            case.predicted.append(case.plan["seconds"])
            log = execute(step, case.object, megabits, folder, args)
            case.measured.append(statistics.median(line["seconds"] for line in log[1:]))
            case.last = log[-1]
    for case in cases:
        wrong += [f"{megabits} Mbit/s, {case.strategy}: {what}" for what in compare(case)]
        print(
            f"{megabits:>6} {case.strategy:8} {statistics.median(case.measured):>9.3f} {statistics.median(case.predicted):>9.3f} "
            f"{case.error:>+7.1%} {case.estimate:>9.3f} {case.last['inter_bytes_sent']:>12,} {case.last['device_peak_bytes']:>11,}",
            flush=True,
        )
    return cases


def compile_step(step: Step, strategy: str, cluster: Path, folder: Path) -> Path:
    out = folder / f"{strategy}.so"
    tool("fcdp-compile", step.archive, f"--cluster={cluster}", f"--strategy={strategy}", "-o", out)
    return out


def execute(step: Step, object: Path, megabits: int, folder: Path, args: argparse.Namespace, *options: str) -> list[dict]:
    log = folder / "log.jsonl"
    command = [str(ROOT / "build/bin/fcdp-run"), str(object), f"--json={log}", f"--weights={step.archive}"]
    command += [f"--steps={args.steps}", "--threads=1", *(f"--input={given}" for given in step.inputs), *options]
    run(command, NODES, LOCAL, megabits)
    return [json.loads(line) for line in log.read_text().splitlines()]


def compare(case: Case) -> list[str]:
    """Returns the differences from the plan."""
    last, plan = case.last, case.plan
    pairs = [(f"bytes of {link}", last[key], plan["bytes"]["step"][link]) for link, key in LOGGED.items()]
    pairs.append(("host memory", last["host_cache_bytes"], plan["host_memory"]["bytes"]))
    wrong = [f"{what} {measured:,}, planned {planned:,}" for what, measured, planned in pairs if measured != planned]
    device = plan["device_memory"]["bytes"]
    if abs(last["device_peak_bytes"] / device - 1) > 0.02:
        wrong.append(f"device memory {last['device_peak_bytes']:,}, planned {device:,}")
    return wrong


def tool(name: str, *arguments: object) -> str:
    command = [str(ROOT / "build/bin" / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
