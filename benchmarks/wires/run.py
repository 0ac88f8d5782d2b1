#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what coded wires and outer steps send and how long a step takes with them, on text, on a slow network.

A GPT in bfloat16 with float32 masters trains with AdamW on two hosts of two ranks each, made of network namespaces, at
each learning rate. Predictions are those of fcdp-compile for the preset `cpu` with the network's bandwidth. Bytes are
in units of W16, the model's bytes in bfloat16: what fcdp counts between nodes in a step, and what the kernel counts
with all headers. The first steps of a run are not counted: the moments of AdamW fill, and each update is as long as the
learning rate. Cases take turns, so that other load on the machine affects all alike. Figures are medians over steps,
and for outer steps means over whole periods: --steps and --skip must then be multiples of 32. Ends with an error if a
lossless case gives another loss than raw wires. Needs root. All ranks share this machine's cores.
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

import torch

import fcdp

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks" / "netns"), str(ROOT / "examples" / "gpt")]

from hosts import describe_cluster, report_wrong, require_hosts  # noqa: E402
from model import GPT, GPTConfig  # noqa: E402
from run import run  # noqa: E402
from text import read_text, write_tokens  # noqa: E402

NODES, LOCAL = 2, 2
CASES = {
    "raw": [],
    "delta": ["--wire=delta"],
    "coded": ["--reduce-wire=coded"],
    "delta+coded": ["--wire=delta", "--reduce-wire=coded"],
    "delta+int8": ["--wire=delta", "--reduce-wire=int8"],
    "delta+int4": ["--wire=delta", "--reduce-wire=int4"],
    "outer32": ["--strategy=hsdp", "--outer=32"],
    "outer32+int8": ["--strategy=hsdp", "--outer=32,wire=int8"],
    "outer32/4": ["--strategy=hsdp", "--outer=32,fragments=4"],
    "auto": ["--wire=auto"],
    "auto+coded": ["--wire=auto", "--reduce-wire=coded"],
}
UNSHAPED = 8000
"""Megabits per second that `auto` assumes between hosts without a limit: the preset `cpu`."""
BATCH, TIME = 2, 128


@dataclass
class Case:
    name: str
    object: Path
    predicted: float
    steps: list[dict[str, float]] = field(default_factory=list)
    """The counted steps of all rounds."""
    losses: list[float] = field(default_factory=list)
    kernel: list[float] = field(default_factory=list)
    """Bytes of a host for each step, over all steps of a run."""

    @property
    def is_exact(self) -> bool:
        return "int" not in self.name and not self.has_outer_steps

    @property
    def has_outer_steps(self) -> bool:
        return self.name.startswith("outer")

    def typical(self, key: str) -> float:
        of_steps = statistics.mean if self.has_outer_steps else statistics.median
        return of_steps(step[key] for step in self.steps)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lr", nargs="+", default=["1e-5", "1e-4", "3e-4"])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=[case for case in CASES if "outer" not in case])
    parser.add_argument("--megabits", type=int, help="bandwidth of each host's uplink and direction (default: no limit)")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--skip", type=int, default=20, help="steps that are not counted (default 20)")
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    require_hosts("wires")
    if not 0 < args.skip < args.steps:
        parser.error("--skip: expected a number between 0 and --steps")
    if any(case.startswith("outer") for case in args.cases) and (args.steps % 32 or args.skip % 32):
        parser.error("--steps, --skip: expected multiples of 32 with outer steps")
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model_bytes = export(folder, args)
        cluster = describe_cluster(folder / "cluster.yaml", args.megabits or UNSHAPED)
        for lr in args.lr:
            cases = [compile_case(case, lr, folder, cluster) for case in args.cases]
            for _ in range(args.rounds):
                for case in cases:
                    measure(case, folder, args)
            report(lr, cases, model_bytes)
            wrong += [
                f"lr {lr}: {case.name}: other losses than {cases[0].name}"
                for case in cases
                if case.is_exact and case.losses != cases[0].losses
            ]
    return report_wrong("wires", wrong)


def export(folder: Path, args: argparse.Namespace) -> int:
    """Returns the bytes of the model."""
    vocabulary = write_tokens(read_text(), folder)
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocabulary, TIME, args.layers, 6, args.width)).bfloat16()
    ids, labels = (torch.randint(vocabulary, (BATCH, TIME)) for _ in range(2))
    fcdp.export(model, (ids, labels), folder / "step.pt2")
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{count:,} parameters, W16 {2 * count:,} bytes; {NODES} x {LOCAL} ranks, {BATCH} x {TIME} tokens each")
    return 2 * count


def compile_case(name: str, lr: str, folder: Path, cluster: Path) -> Case:
    out = folder / f"{name}-{lr}.so"
    options = [f"--nodes={NODES}", f"--ranks-per-node={LOCAL}", "--master=f32", "--clip-norm=1"]
    options += [f"--optimizer=adamw,lr={lr}", f"--cluster={cluster}"]
    command = [ROOT / "build/bin/fcdp-compile", folder / "step.pt2", *options, *CASES[name], "-o", out]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return Case(name, out, float(re.search(r"predicted +(\S+) s", text)[1]))


def measure(case: Case, folder: Path, args: argparse.Namespace) -> None:
    log = folder / "log.jsonl"
    tokens = folder / "tokens.u16"
    command = [str(ROOT / "build/bin/fcdp-run"), str(case.object), f"--json={log}", f"--weights={folder / 'step.pt2'}"]
    command += [f"--steps={args.steps}", "--threads=1", f"--input=ids={tokens}:u16", f"--input=labels={tokens}:u16+1"]
    sent, _ = run(command, NODES, LOCAL, args.megabits)
    steps = [json.loads(line) for line in log.read_text().splitlines()]
    case.losses = [step["loss"] for step in steps]
    case.steps += steps[args.skip :]
    case.kernel.append(statistics.mean(sent) / len(steps))


def report(lr: str, cases: list[Case], model_bytes: int) -> None:
    print(f"\nlr {lr}\n| wires | sent, W16 a step | kernel, W16 a step, first steps in | seconds a step | of raw | predicted | exposed, s | loss |")
    print("|---|---|---|---|---|---|---|---|")
    raw = cases[0].typical("seconds")
    for case in cases:
        sent, seconds = case.typical("inter_bytes_sent") / model_bytes, case.typical("seconds")
        kernel = statistics.mean(case.kernel) / model_bytes
        exposed = case.typical("exposed_seconds")
        print(
            f"| {case.name} | {sent:.3f} | {kernel:.3f} | {seconds:.3f} | {seconds / raw:.3f} | {case.predicted:.3f} "
            f"| {exposed:.3f} | {case.losses[-1]:.6f} |",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
