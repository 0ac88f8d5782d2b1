#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a GPT and a Llama on text with each wire of reductions, or with outer steps, and compares losses and bytes
with exact training.

Two nodes of two ranks on this machine, bfloat16 parameters with float32 masters, differences in gathers (--wire=delta,
which is exact). With --outer, nodes train by themselves between outer steps instead. Prints the mean loss of the last
tenth of the steps, the loss of held-out text, both relative to those of exact reductions, and the bytes that nodes send
in a step, in units of the model's bytes in bfloat16.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import mean

import torch
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "curves"))

import fcdp  # noqa: E402
from models import MODELS, Case, Rows, Text, build  # noqa: E402

BIN = ROOT / "build" / "bin"
WIRES = ("raw", "coded", "int8", "int4")
NODES, LOCAL = 2, 2
EVALUATION_ROWS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--wires", nargs="+", choices=WIRES, default=["raw", "int8", "int4"])
    parser.add_argument("--outer", nargs="+", default=[], help="values of fcdp-compile's --outer to try, too, such as 32")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "wires")
    args = parser.parse_args()
    if args.steps < 10:
        parser.error(f"argument --steps: expected at least 10, got {args.steps}")
    for model in args.models:
        exact = None
        for name, options in cases(args):
            found = train(Case(model, "masters"), options, args, args.folder / f"{model}-{name}")
            exact = exact or found
            report(f"{model} {name}", found, exact)


def cases(args: argparse.Namespace) -> list[tuple[str, list[str]]]:
    """The name of each case, and its options."""
    wires = [(wire, ["--strategy=fcdp", "--wire=delta", f"--reduce-wire={wire}"]) for wire in args.wires]
    return wires + [(f"outer={outer}", ["--strategy=hsdp", f"--outer={outer}"]) for outer in args.outer]


def train(case: Case, options: list[str], args: argparse.Namespace, folder: Path) -> dict[str, float]:
    folder.mkdir(parents=True, exist_ok=True)
    text = Text()
    model = build(case, text.vocabulary, seed=0)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    weights = folder / "weights.safetensors"
    save_file({name: parameter.detach().clone() for name, parameter in model.named_parameters()}, weights)
    model.to(torch.bfloat16)
    fcdp.export(model, first(text.training_rows(1, 0)), folder / "train.pt2")
    fcdp.export(model.eval(), first(text.evaluation_rows(1)), folder / "eval.pt2", train=False)
    step, log = folder / "step.so", folder / "log.jsonl"
    run(
        *(BIN / "fcdp-compile", folder / "train.pt2", f"--eval={folder / 'eval.pt2'}", "-o", step, *options),
        *(f"--nodes={NODES}", f"--ranks-per-node={LOCAL}", "--master=f32", "--clip-norm=1"),
        *(f"--micro-batches={args.micro_batches}", "--accumulate=node"),
        *(f"--optimizer=adamw,lr={args.lr},beta2=0.95,weight_decay=0.1", f"--group={case.decay_free}:weight_decay=0"),
    )
    inputs = text.training_rows(args.steps * args.micro_batches * NODES * LOCAL, 0).save(folder, "train")
    held_out = text.evaluation_rows(EVALUATION_ROWS).save(folder, "held-out")
    log.unlink(missing_ok=True)
    run(
        *(BIN / "fcdp-run", step, f"--weights={weights}", f"--steps={args.steps}", "--threads=1", f"--json={log}"),
        *(f"--input={name}={path}" for name, path in inputs.items()),
        *(f"--eval-input={name}={path}" for name, path in held_out.items()),
        *(f"--schedule=cosine,warmup={args.steps // 10},steps={args.steps},min=0.1", f"--eval-every={args.steps}"),
    )
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    steps = [line for line in lines if "loss" in line]
    return {
        "loss": mean(line["loss"] for line in steps[-args.steps // 10 :]),
        "held-out": [line["evaluation_loss"] for line in lines if "evaluation_loss" in line][-1],
        # The job has one node less than it has nodes to send each byte to. The first gather has no reference.
        "W16": mean(line["inter_bytes_sent"] for line in steps[1:]) / (2 * parameters),
    }


def first(rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(rows.ids[0]), torch.from_numpy(rows.labels[0])


def run(*command: object) -> None:
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)


def report(name: str, found: dict[str, float], exact: dict[str, float]) -> None:
    losses = (f"{key} {found[key]:.5f} ({found[key] / exact[key] - 1:+.2%})" for key in ("loss", "held-out"))
    print(f"{name}: {', '.join(losses)}, {found['W16']:.3f} W16 a step", flush=True)


if __name__ == "__main__":
    main()
