# SPDX-License-Identifier: Apache-2.0
"""The demonstration that scripts/demo runs."""

import argparse
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "test" / "e2e"), str(ROOT / "examples" / "gpt")]

import demo_others  # noqa: E402
from closed_forms import Traffic, buckets, traffic  # noqa: E402
from demo_example import LOCAL, NODES, Example  # noqa: E402
from demo_print import Check, Progress, print_table  # noqa: E402
from harness import Run, compile_command, read_plan, read_log, relative_error, run_command, tool  # noqa: E402

STRATEGIES = ("zero3", "fcdp")
LOSS_TOLERANCE = 1e-5
COMPILE_SECONDS = 2.0
# FSDP2 over Gloo on as many ranks, in units of W per node and step; benchmarks/peers measures it.
FSDP2_MULTIPLE = 3.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/demo")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=4)
    args = parser.parse_args()
    folder = ROOT / "build" / "demo"
    folder.mkdir(parents=True, exist_ok=True)
    example = Example(folder, args.batch)
    example.export()
    demo = Demo(example, args.steps)
    for strategy in STRATEGIES:
        demo.compile(strategy)
        demo.run(strategy)
    demo.train_in_pytorch()
    demo.report()
    demo.checks += demo_others.other_meshes(example)
    demo.checks += demo_others.other_models(folder)
    return demo.conclude()


class Demo:
    def __init__(self, example: Example, steps: int):
        self.example, self.folder, self.steps = example, example.folder, steps
        self.compile_seconds: dict[str, float] = {}
        self.objects: dict[str, Path] = {}
        self.runs: dict[str, Run] = {}
        self.expected: list[float] = []
        self.checks: list[Check] = []

    def compile(self, strategy: str) -> None:
        step = self.folder / f"{strategy}.so"
        before = processor_seconds()
        with Progress(f"compile for {NODES} nodes x {LOCAL} ranks, strategy {strategy}"):
            tool(*compile_command(self.example.config(strategy), self.example.archive, step))
        self.compile_seconds[strategy] = processor_seconds() - before
        self.objects[strategy] = step

    def run(self, strategy: str) -> None:
        log, parameters = self.folder / f"{strategy}.jsonl", self.folder / f"{strategy}.safetensors"
        command = run_command(self.objects[strategy], self.example.archive, self.example.inputs, self.steps)
        with Progress(f"train {self.steps} steps on {NODES * LOCAL} local ranks, strategy {strategy}"):
            tool(*command, f"--json={log}", f"--params-out={parameters}", timeout=1200)
        self.runs[strategy] = Run(read_log(log), parameters)

    def train_in_pytorch(self) -> None:
        with Progress(f"train {self.steps} steps in plain PyTorch, each rank's batch in turn"):
            self.expected = self.example.reference(NODES * LOCAL, self.steps)

    # --- what is printed ---

    def report(self) -> None:
        self.checks += [*self.loss_checks(), *self.equality_checks(), *self.byte_checks(), *self.time_checks()]

    def conclude(self) -> int:
        checks = self.checks
        print()
        width = max(len(check.what) for check in checks)
        for check in checks:
            print(f"  {'ok ' if check.holds else 'NOT'}  {check.what:<{width}}  {check.found}")
        failed = [check for check in checks if not check.holds]
        print()
        print(f"{len(checks) - len(failed)} of {len(checks)} promises hold")
        return 1 if failed else 0

    def loss_checks(self) -> list[Check]:
        print("\nLoss, the mean over four ranks with different data (nats per character)\n")
        rows = [
            (step, f"{expected:.8f}", *(f"{self.runs[s].losses[step - 1]:.8f}" for s in STRATEGIES))
            for step, expected in enumerate(self.expected, start=1)
        ]
        print_table(("step", "PyTorch", *STRATEGIES), rows)
        checks = []
        for strategy in STRATEGIES:
            error = relative_error(self.runs[strategy].losses, self.expected)
            checks.append(
                Check(
                    f"{strategy}: losses are PyTorch's to {LOSS_TOLERANCE:.0e} relative",
                    f"largest difference {error:.1e}",
                    error <= LOSS_TOLERANCE,
                )
            )
        return checks

    def equality_checks(self) -> list[Check]:
        one, other = (self.runs[strategy] for strategy in STRATEGIES)
        equal = one.losses == other.losses
        bytes_equal = one.parameters.read_bytes() == other.parameters.read_bytes()
        size = one.parameters.stat().st_size
        return [
            Check("both strategies: every loss equal bit for bit", f"{self.steps} losses", equal),
            Check("both strategies: final parameters equal byte for byte", f"{size:,} bytes", bytes_equal),
        ]

    def byte_checks(self) -> list[Check]:
        plans = {strategy: read_plan(self.objects[strategy]) for strategy in STRATEGIES}
        layout = buckets(plans["fcdp"])
        whole = sum(bucket.gather_bytes for bucket in layout)
        padding = sum(bucket.padding_bytes for bucket in layout)
        print(f"\nBytes per node and step; W = {whole:,} bytes of parameters, {padding:,} of them padding\n")
        rows: list[tuple[Any, ...]] = []
        checks = []
        for strategy in STRATEGIES:
            once, each = traffic(plans[strategy], strategy, self.example.live_ranges())
            predicted = [once + each] + [each] * (self.steps - 1)
            counted = self.runs[strategy].traffic
            rows += traffic_rows(strategy, counted[-1], each, whole)
            checks.append(
                Check(
                    f"{strategy}: bytes counted in every step are the closed forms",
                    f"{counted[-1].inter:,} between nodes",
                    counted == predicted,
                )
            )
        print_table(("strategy", "bytes", "counted", "closed form", "in W"), rows)
        print(f"\nPyTorch's FSDP2 over Gloo sends {FSDP2_MULTIPLE:.1f} W per node on {NODES} x {LOCAL} ranks.")
        sent = {strategy: self.runs[strategy].traffic[-1].inter for strategy in STRATEGIES}
        share = sent["fcdp"] / sent["zero3"]
        checks.append(Check("fcdp sends at most 0.70 of zero3 between nodes", f"{share:.3f}", share <= 0.70))
        return checks

    def time_checks(self) -> list[Check]:
        return [
            Check(
                f"{strategy}: import and compile take less than {COMPILE_SECONDS:.0f} s of a processor",
                f"{seconds:.2f} s",
                seconds < COMPILE_SECONDS,
            )
            for strategy, seconds in self.compile_seconds.items()
        ]


def processor_seconds() -> float:
    """Returns the CPU time of all child processes so far. Unlike the clock, it does not depend on other load."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def traffic_rows(strategy: str, counted: Traffic, predicted: Traffic, whole: int) -> list[tuple[Any, ...]]:
    names: list[tuple[str, Callable[[Traffic], int]]] = [
        ("between nodes", lambda t: t.inter),
        ("inside the node", lambda t: t.intra),
        ("host to device", lambda t: t.h2d),
        ("device to host", lambda t: t.d2h),
    ]
    return [
        (strategy, name, f"{of(counted):,}", f"{of(predicted):,}", f"{of(counted) / whole:.3f}") for name, of in names
    ]


if __name__ == "__main__":
    sys.exit(main())
