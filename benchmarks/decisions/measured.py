#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares plans of `auto` on machines that were measured with all presets, as a job of fcdp.compile would have them.

Two hosts of two ranks each are network namespaces on this machine (benchmarks/netns). For each bandwidth, fcdp-run
probes them. `auto` is planned by that probe, as at the first start of a job, and by a profile of its own steps besides,
as at later starts that trust the profile. All cases run once per round, so that other load on the machine affects all
alike. A line per case has its predicted and its measured seconds; the last ones have the ratio of `auto` to the fastest
preset. Needs root.
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
sys.path[:0] = [str(ROOT / "benchmarks" / "netns"), str(ROOT / "benchmarks" / "strategies")]

from fcdp.loop.history import predict_planned  # noqa: E402
from hosts import require_hosts  # noqa: E402
from models import MODELS, Step  # noqa: E402
from run import run  # noqa: E402

NODES, LOCAL = 2, 2
BIN = ROOT / "build/bin"
PRESETS = ("zero3", "zero2", "hpz", "fcdp", "hsdp", "mics", "ddp")
# More presets where gradients are accumulated.
ACCUMULATIONS = ("node", "full")
PROFILED = 3


@dataclass
class Case:
    name: str
    object: Path
    predicted: float
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["gpt"])
    parser.add_argument("--megabits", nargs="+", default=["200", "1000", "none"], help="bandwidths of a host's uplink")
    parser.add_argument("--micro-batches", nargs="+", type=int, default=[1, 4, 8])
    parser.add_argument("--steps", type=int, default=4, help="steps per run; the first is not counted (default 4)")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--near", type=float, help="measure only presets predicted to take at most this share longer than the fastest (default: all)"
    )
    args = parser.parse_args()
    require_hosts("decisions")
    with tempfile.TemporaryDirectory() as name:
        steps = {model: MODELS[model](made(Path(name) / model)) for model in args.models}
        for megabits in args.megabits:
            cluster = probe(Path(name) / f"{megabits}.yaml", limit(megabits))
            for model, step in steps.items():
                for micro_batches in args.micro_batches:
                    folder = made(Path(name) / f"{model}-{megabits}-{micro_batches}")
                    compare(model, step, cluster, megabits, micro_batches, folder, args)
    return 0


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def limit(megabits: str) -> int | None:
    return None if megabits == "none" else int(megabits)


def probe(path: Path, megabits: int | None) -> Path:
    _, seconds = run([str(BIN / "fcdp-run"), f"--probe-cluster={path}", "--threads=1"], NODES, LOCAL, megabits)
    print(f"{megabits or 'no limit of'} Mbit/s: probed in {seconds:.1f} s with the start of four ranks", flush=True)
    return path


def compile_case(name: str, step: Step, cluster: Path, folder: Path, options: list[str]) -> Case:
    out = folder / f"{name.replace(' ', '-')}.so"
    command = [BIN / "fcdp-compile", step.archive, f"--cluster={cluster}", *options, "-o", out]
    text = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout
    return Case(name, out, float(re.search(r"predicted +(\S+) s", text)[1]))


def measure(case: Case, step: Step, folder: Path, megabits: str, steps: int, *options: str) -> list[float]:
    log = folder / "log.jsonl"
    command = [str(BIN / "fcdp-run"), str(case.object), f"--json={log}", f"--weights={step.archive}", *options]
    command += [f"--steps={steps}", "--threads=1", *(f"--input={given}" for given in step.inputs)]
    run(command, NODES, LOCAL, limit(megabits))
    return [json.loads(line)["seconds"] for line in log.read_text().splitlines()[1:]]


def compare(
    model: str, step: Step, cluster: Path, megabits: str, micro_batches: int, folder: Path, args: argparse.Namespace
) -> None:
    shared = [f"--micro-batches={micro_batches}"]
    wanted = {preset: [f"--strategy={preset}"] for preset in PRESETS}
    for preset in ("zero3", "fcdp") if micro_batches > 1 else ():
        wanted |= {f"{preset} {mode}": [f"--strategy={preset}", f"--accumulate={mode}"] for mode in ACCUMULATIONS}
    presets = [compile_case(name, step, cluster, folder, [*shared, *options]) for name, options in wanted.items()]
    if args.near is not None:
        longest = min(case.predicted for case in presets) * (1 + args.near)
        presets = [case for case in presets if case.predicted <= longest]
    first = compile_case("auto, probe", step, cluster, folder, [*shared, "--strategy=auto"])
    profile = folder / "profile.json"
    measure(first, step, folder, megabits, PROFILED + 2, f"--profile={profile}", f"--profile-steps={PROFILED}")
    later = compile_case("auto, profile", step, cluster, folder, [*shared, "--strategy=auto", f"--profile={profile}"])
    cases = [*presets, first, later]
    for _ in range(args.rounds):
        for case in cases:
            case.seconds += measure(case, step, folder, megabits, args.steps)
    best = min(presets, key=lambda case: case.median)
    print(f"\n{model}, {megabits} Mbit/s, {micro_batches} micro-batches: median of {len(first.seconds)} steps")
    for case in cases:
        print(f"  {case.name:14} predicted {case.predicted:7.3f}  measured {case.median:7.3f}  {case.predicted / case.median - 1:+6.1%}")
    explained = predict_planned(step.archive, [f"--cluster={cluster}", *shared, "--strategy=auto"], f"--profile={profile}")
    if explained is not None:
        print(f"  the profile predicts {explained:.3f} s for the plan in which it was measured, {explained / first.median - 1:+.1%}")
    for case in (first, later):
        print(f"  {case.name} takes {case.median / best.median:.3f} of {best.name}, the fastest preset", flush=True)


if __name__ == "__main__":
    sys.exit(main())
