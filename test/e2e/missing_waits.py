#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Removes each wait from a plan, one at a time, and runs the plan on emulated devices (docs/rationale/cuda.md, "How it
is tested").

A line for each wait says whether the prover refuses the plan without it, and in which order of streams a run without it
has other losses or parameters. The exit code is 1 if a removal that the prover refuses is not found by any run. Tests
run some of the waits (test_emulated_gpu.py).
"""

import argparse
import json
import os
import re
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from harness import BIN, Config, Run, ToolError, Workshop, compile_command, environment, read_log, run_command, tool

PROGRAM = BIN / "fcdp-run-emulated"
STEPS = 4
# As late as waits allow; in random order; or one stream as early as waits allow.
LATE, SHUFFLED, AHEAD = "late", "shuffled:3", "ahead:5"
FEW_ORDERS = (LATE, SHUFFLED, AHEAD, "ahead:2", "shuffled:1", "ahead:1")
ALL_ORDERS = (*FEW_ORDERS, "ahead:0", "ahead:3", "ahead:4", "ahead:6", *(f"shuffled:{seed}" for seed in (2, 4, 5, 6, 7, 8)))
MUTATED = Config("gpt", micro_batches=4)
# Operators overwrite as much temporary memory as the plan leaves them, as the prover assumes.
SCRATCH = {"FCDP_FAKE_SCRATCH": str(2 << 20)}
# Temporary memory is filled with NaN, which ends the job where it reaches a loss, a gradient or an index.
FAILURE = re.compile(r"\bNaN\b|index out of range|out of bounds")


def run_on(step: Path, workshop: Workshop, config: Config, folder: Path, order: str, *options: str, **variables: str) -> Run:
    # Each run has files of its own, since a test may compare two.
    name = f"run-{len(list(folder.glob('run-*.jsonl')))}"
    model, files = workshop.model(config.model), (folder / f"{name}.jsonl", folder / f"{name}.safetensors")
    mesh = [f"--nodes={config.nodes}", f"--ranks-per-node={config.local}"]
    if config.states.startswith("file"):
        mesh.append(f"--state-path={workshop.state_folder}")
    command = run_command(
        step, model.archive, model.inputs, STEPS, *mesh, f"--json={files[0]}", f"--params-out={files[1]}", *options
    )
    tool(PROGRAM, *command[1:], env=environment({"FCDP_FAKE_ORDER": order, **variables}), timeout=300)
    return Run(read_log(files[0]), files[1])


def compile_for_gpus(workshop: Workshop, config: Config, folder: Path, *options: str, source: Path | None = None) -> Path:
    step = folder / "cuda.so"
    tool(*compile_command(config, source or workshop.model(config.model).archive, step), "--target=cuda", *options)
    return step


class Waits:
    """The waits of one plan, by their place among all."""

    def __init__(self, workshop: Workshop, folder: Path):
        self.workshop = workshop
        self.archive = workshop.model(MUTATED.model).archive
        self.text = planned_text(self.archive, folder)
        self.lines = list(re.finditer(r"^ *fcdp\.wait .*\n", self.text, re.M))
        step = compile_for_gpus(workshop, MUTATED, folder)
        self.plan = tool(BIN / "fcdp-compile", step, "--emit=plan-json")
        assert len(self.lines) == len(waits_of(json.loads(self.plan)))

    def is_refused(self, number: int, folder: Path) -> bool:
        """Whether the prover refuses the plan without a wait."""
        file, wait = folder / "mutant.mlir", self.lines[number]
        file.write_text(self.text[: wait.start()] + self.text[wait.end() :])
        try:
            tool(BIN / "fcdp-opt", file, "--fcdp-verify-plan", "-o", os.devnull)
        except ToolError:
            return True
        return False

    def without(self, number: int, folder: Path) -> Path:
        """Makes the step without a wait."""
        plan = json.loads(self.plan)
        recorded = {op["body"]["event"]: op["body"]["stream"] for op in plan["ops"] if op["body_type"] == "record"}
        wait = waits_of(plan)[number]
        # A stream that waits for itself waits for nothing.
        wait["stream"] = recorded[wait["event"]]
        (folder / "plan.json").write_text(json.dumps(plan))
        mutant = folder / "mutant.so"
        tool(BIN / "fcdp-compile", folder / "plan.json", f"--archive={self.archive}", "-o", mutant)
        return mutant

    def find_order(self, mutant: Path, folder: Path, orders: tuple[str, ...]) -> str | None:
        """The first order in which a run of the step has other losses or parameters."""
        return next((order for order in orders if differs(self.workshop, mutant, folder, order)), None)


def planned_text(archive: Path, folder: Path) -> str:
    imported, planned = folder / "step.mlir", folder / "planned.mlir"
    tool(BIN / "fcdp-translate", "--import-pt2", archive, "-o", imported)
    options = (
        f"target=cuda strategy={MUTATED.strategy} nodes=2 ranks-per-node=2 micro-batches={MUTATED.micro_batches} "
        f"optimizer={MUTATED.optimizer}"
    )
    tool(BIN / "fcdp-opt", imported, f"--fcdp-pipeline={options}", "-o", planned)
    return planned.read_text()


def waits_of(plan: dict) -> list[dict]:
    return [op["body"] for op in plan["ops"] if op["body_type"] == "wait"]


def differs(workshop: Workshop, mutant: Path, folder: Path, order: str) -> bool:
    whole = workshop.run(MUTATED, STEPS)
    try:
        run = run_on(mutant, workshop, MUTATED, folder, order, **SCRATCH)
    except ToolError as error:
        assert FAILURE.search(str(error)), error
        return True
    return run.losses != whole.losses or run.parameters.read_bytes() != whole.parameters.read_bytes()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: nice .venv/bin/python test/e2e/missing_waits.py --jobs 4 --every 4",
    )
    parser.add_argument("--jobs", type=int, default=2, help="removals that run at a time (default 2)")
    parser.add_argument("--every", type=int, default=1, help="runs every N-th wait alone (default 1)")
    parser.add_argument("--waits", type=int, nargs="+", help="runs these waits alone, by their place in the plan from 0")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        return report(Path(name), args.jobs, args.every, args.waits)


def report(folder: Path, jobs: int, every: int, numbers: list[int] | None) -> int:
    workshop = Workshop(folder / "e2e")
    workshop.run(MUTATED, STEPS)
    waits = Waits(workshop, folder)
    print(f"the plan has {len(waits.lines)} waits", flush=True)

    def measure(number: int) -> tuple[bool, str | None]:
        own = folder / str(number)
        own.mkdir()
        is_refused = waits.is_refused(number, own)
        found = waits.find_order(waits.without(number, own), own, ALL_ORDERS)
        prover = "refused" if is_refused else "allowed"
        print(f"wait {number}: {prover}, {f'found in order {found}' if found else 'not found'}", flush=True)
        return is_refused, found

    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(measure, numbers or range(0, len(waits.lines), every)))
    refused = [found for is_refused, found in results if is_refused]
    allowed = [found for is_refused, found in results if not is_refused]
    missed = refused.count(None)
    print(f"refused: {len(refused)}, of which runs find {len(refused) - missed}: {dict(Counter(filter(None, refused)))}")
    print(f"allowed: {len(allowed)}, of which runs find {len(allowed) - allowed.count(None)}")
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
