#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the seconds that fcdp's host takes to issue operations to a GPU, without a GPU: `host.issue` of a cluster.

libtorch's operators for CUDA run on a device that does nothing (fcdp-run-idle of test/torch_cuda), so a step takes the
time of its host. Kernels are not launched, and copies and collectives are not made. Their libraries' times are added
from published figures (the constants below name the sources). A thread, which NCCL would start for communicators that
do not block, is timed. Times of a step are lower quartiles, and times of single operations are medians, because other
programs only make them longer. Nothing is asserted, because times depend on the machine.
`scripts/test-torch-cuda --keep` builds what this runs. Use the Python of its folder.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

import fcdp

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "gpt"))

from model import GPT, GPTConfig  # noqa: E402

VOCABULARY, CONTEXT = 64, 32
# The first steps fill pools and capture graphs.
WARM_UP = 20
# The host launched kernels of a stream at this rate or faster: te42kyfo/gpu-benches, small kernels on H200.
LAUNCH = 2.4e-6
# cudaEventRecord without timing and cudaStreamWaitEvent, each: harrism/cuda_event_benchmark, V100 (0.12 to 0.18 us with
# a 4090).
EVENT = 0.25e-6
# libtorch has cuBLAS launch their kernels. Each is one launch.
PRODUCTS = ("aten.mm.default", "aten.addmm.default", "aten.bmm.default")


@dataclass(frozen=True)
class Kind:
    """Similar operations of a step: how many there are, and the mean of their seconds."""

    calls: float
    seconds: float


class Bench:
    def __init__(self, home: Path, folder: Path, layers: int, width: int, steps: int):
        self.home, self.folder, self.steps = home, folder, steps
        torch.manual_seed(0)
        torch.set_num_threads(1)
        model = GPT(GPTConfig(VOCABULARY, context=CONTEXT, layers=layers, heads=2, width=width)).to(torch.bfloat16)
        ids, labels = (torch.randint(VOCABULARY, (1, CONTEXT)) for _ in range(2))
        self.archive = folder / "step.pt2"
        fcdp.export(model, (ids, labels), self.archive)
        self.inputs = list(torch.export.load(self.archive).graph_signature.user_inputs)

    def compile(self, name: str, *options: str) -> Path:
        step = self.folder / f"{name}.so"
        call([self.home / "bin/fcdp-compile", self.archive, "--target=cuda", *options, "-o", step])
        return step

    def run(self, step: Path, steps: int, *options: str | Path, **variables: str) -> list[float]:
        """Seconds of each step."""
        log = self.folder / "log.jsonl"
        command = [self.home / "bin/fcdp-run-idle", step, f"--weights={self.archive}", "--threads=1", f"--steps={steps}"]
        command += [f"--json={log}", *(f"--input={name}=random:{VOCABULARY}" for name in self.inputs), *options]
        call(command, variables)
        return [json.loads(line)["seconds"] for line in log.read_text().splitlines()]

    def time(self, step: Path, *options: str) -> float:
        return statistics.quantiles(self.run(step, self.steps + WARM_UP, *options)[WARM_UP:], n=4)[0]

    def profile(self, step: Path, *options: str) -> dict[str, Kind]:
        """The kinds of operations, by the names of operators and other operations."""
        file = self.folder / "profile.json"
        self.run(step, self.steps + WARM_UP, f"--profile={file}", *options)
        found: dict[str, list[Kind]] = defaultdict(list)
        profile = json.loads(file.read_text())
        for entry in [*profile["operators"], *profile["operations"]]:
            name = entry["operator"].partition("(")[0] if "operator" in entry else entry["kind"]
            found[name].append(Kind(entry["calls"], entry["seconds"]))
        return {name: merge(kinds) for name, kinds in found.items()}

    def count(self, step: Path, function: str, *options: str) -> float:
        """How often a step calls a function of CUDA."""
        counts = []
        for steps in (5, 10):
            with tempfile.TemporaryDirectory(dir=self.folder) as calls:
                self.run(step, steps, *options, FCDP_FAKE_CALLS=calls)
                counts.append(sum(file.read_text().split("\n").count(function) for file in Path(calls).iterdir()))
        return (counts[1] - counts[0]) / 5


def call(command: Sequence[str | Path], variables: Mapping[str, str] = {}) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env={**os.environ, **variables})
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def merge(kinds: Sequence[Kind]) -> Kind:
    calls = sum(kind.calls for kind in kinds)
    return Kind(calls, sum(kind.calls * kind.seconds for kind in kinds) / max(calls, 1))


def is_view(name: str) -> bool:
    """Whether an operator's result is its operand's memory."""
    parts = name.split(".")
    if parts[0] != "aten":
        return False
    alias = getattr(getattr(torch.ops.aten, parts[1]), parts[2])._schema.returns[0].alias_info
    return alias is not None and not alias.is_write


def seconds_of_a_thread(folder: Path) -> float:
    program = folder / "thread"
    call(["cc", "-O2", Path(__file__).parent / "thread.c", "-o", program, "-lpthread"])
    return float(call([program]))


def spell(seconds: float) -> str:
    return f"{seconds * 1e6:.2f} us"


def report_operators(bench: Bench, lists_all: bool) -> None:
    step = bench.compile("one", "--strategy=zero3")
    kinds = {name: kind for name, kind in bench.profile(step).items() if name not in ("all_gather", "reduce_scatter")}
    views = merge([kind for name, kind in kinds.items() if is_view(name)])
    operators = merge([kind for name, kind in kinds.items() if not is_view(name)])
    whole, graphs = bench.time(step), bench.time(step, "--cuda-graphs=auto")
    products = sum(kind.calls for name, kind in kinds.items() if name in PRODUCTS)
    launches = bench.count(step, "cudaLaunchKernel") + products
    print(f"a step of one rank: {operators.calls:.0f} operators, {views.calls:.0f} views, {launches:.0f} launches of kernels")
    print(f"  {whole * 1e6:.0f} us; with --cuda-graphs=auto {graphs * 1e6:.0f} us", end="")
    left = bench.count(step, "cudaLaunchKernel", "--cuda-graphs=auto")
    print(f", {bench.count(step, 'cudaGraphLaunch', '--cuda-graphs=auto'):.0f} graphs, {left:.0f} launches outside of them")
    print(f"view: {spell(views.seconds)}")
    print(f"operator alone: {spell(operators.seconds)}")
    # Waits, events and other things between operators count for them.
    share = (whole - views.calls * views.seconds) / operators.calls
    print(f"operator with what is between operators: {spell(share)}")
    of_one = launches / operators.calls
    print(f"price of an operator, with its {of_one:.2f} launches: {spell(share + of_one * LAUNCH)}")
    if lists_all:
        for name, kind in sorted(kinds.items(), key=lambda entry: -entry[1].calls * entry[1].seconds):
            print(f"  {name}: {kind.calls:.0f} times {spell(kind.seconds)}")


def report_transfers(bench: Bench) -> None:
    step = bench.compile("two", "--strategy=fcdp", "--nodes=2", "--ranks-per-node=1")
    kinds = bench.profile(step, "--nodes=2", "--ranks-per-node=1")
    collectives = merge([kinds["all_gather"], kinds["reduce_scatter"]])
    copies = merge([kinds["cache_store"], kinds["cache_load"]])
    thread = seconds_of_a_thread(bench.folder)
    print(f"collective alone: {spell(collectives.seconds)}")
    print(f"copy alone: {spell(copies.seconds)}")
    print(f"thread that NCCL would start and join if communicators did not block: {spell(thread)}")
    # Each records an event for those that wait for it, and they wait.
    around = LAUNCH + 2 * EVENT
    print(f"price of a collective: {spell(collectives.seconds + around)}, of a copy: {spell(copies.seconds + around)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: PYTHONPATH=python build-torch-cuda/venv/bin/python benchmarks/issue/run.py",
    )
    default = ROOT / "build-torch-cuda/home"
    parser.add_argument("--home", type=Path, default=default, help="folder with bin/fcdp-run-idle (default build-torch-cuda/home)")
    parser.add_argument("--layers", type=int, default=6, help="layers of the GPT example (default 6)")
    parser.add_argument("--width", type=int, default=64, help="width of the GPT example (default 64)")
    parser.add_argument("--steps", type=int, default=1000, help="steps of each run (default 1000)")
    parser.add_argument("--operators", action="store_true", help="prints the seconds of each operator, too")
    args = parser.parse_args()
    if not (args.home / "bin/fcdp-run-idle").exists():
        parser.error(f"expected fcdp-run-idle in {args.home / 'bin'}: run scripts/test-torch-cuda --keep")
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(args.home, Path(name), args.layers, args.width, args.steps)
        report_operators(bench, args.operators)
        report_transfers(bench)


if __name__ == "__main__":
    main()
