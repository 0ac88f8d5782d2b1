#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pre-trains a GPT and a Llama on text with fcdp and with plain PyTorch, and draws both loss curves.

Each job has two nodes of two ranks on this machine, four micro-batches, warm-up and cosine, weight decay of matrices
alone, clipping, evaluations of held-out text and checkpoints. It is killed twice, and resumed. Ends with an error if a
loss in float32 differs from PyTorch's by more than 1e-5, if an evaluation in bfloat16 differs from PyTorch's by more
than two of PyTorch's seeds do, if bytes between nodes are not those of the closed form, or if a job was not killed
twice.
"""

import argparse
import importlib.util
import json
import shutil
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

import job
import plain
from models import MODELS, PRECISIONS, ROOT, Case
from plain import Curve
from results import Result
from settings import Settings

SEEDS = (0, 1, 2)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: .venv/bin/python benchmarks/curves/run.py --picture docs/curves.svg",
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=["f32", "autocast"])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "curves", help="for files (default build/curves)")
    parser.add_argument("--keep", action="store_true", help="take the curves of PyTorch that an earlier run left in the folder")
    parser.add_argument("--picture", type=Path, help="an .svg or .png file to draw")
    args = parser.parse_args()
    if args.steps < 10:
        parser.error(f"argument --steps: expected at least 10, got {args.steps}")
    if args.picture and not importlib.util.find_spec("matplotlib"):
        requirements = Path(__file__).with_name("requirements.txt")
        parser.error(f"argument --picture: expected matplotlib; install it with {sys.executable} -m pip install -r {requirements}")
    settings = Settings(args.steps)
    # torch.export warns of its own use of LeafSpec.
    warnings.filterwarnings("ignore", category=FutureWarning, message=".*LeafSpec")
    results = {}
    for case in (Case(model, precision) for model in args.models for precision in args.precisions):
        results[case] = measure(case, settings, args.folder / case.name, args.keep)
        report(case, results[case])
    if args.picture:
        import picture

        picture.draw(results, args.picture)
    wrong = [f"{case.name}: {fault}" for case, result in results.items() for fault in faults(result, settings)]
    print("\n".join(wrong) or "all loss curves are as expected")
    return 1 if wrong else 0


def measure(case: Case, settings: Settings, folder: Path, keep: bool) -> Result:
    folder.mkdir(parents=True, exist_ok=True)
    seeds = SEEDS[:1] if case.precision == "f32" else SEEDS
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        found = [pool.submit(curve_of_pytorch, case, settings, seed, folder, keep) for seed in seeds]
        curves = {seed: future.result() for seed, future in zip(seeds, found)}
    shutil.rmtree(folder / "job", ignore_errors=True)
    return Result(job.train(case, settings, folder / "job"), curves)


def curve_of_pytorch(case: Case, settings: Settings, seed: int, folder: Path, keep: bool) -> Curve:
    file = folder / f"pytorch-{settings.steps}-{seed}.json"
    if keep and file.exists():
        kept = json.loads(file.read_text())
        return Curve(kept["losses"], {int(step): loss for step, loss in kept["evaluations"].items()})
    curve = plain.train(case, settings, seed)
    file.write_text(json.dumps(asdict(curve)))
    return curve


def report(case: Case, result: Result) -> None:
    found, expected = result.job.curve, result.plain[0]
    last = max(found.evaluations)
    distance, spread = max(result.distances())
    print(f"{case.name}: resumed at steps {result.job.resumed_at}", flush=True)
    print(f"  loss of the last step {found.losses[-1]:.6f}, PyTorch {expected.losses[-1]:.6f}")
    print(f"  last evaluation {found.evaluations[last]:.6f}, PyTorch {expected.evaluations[last]:.6f}")
    print(f"  greatest relative difference of a loss {result.difference():.1e}")
    if len(result.plain) > 1:
        print(f"  greatest difference of an evaluation {distance:.1e}; of PyTorch's seeds there {spread:.1e}", flush=True)


def faults(result: Result, settings: Settings) -> list[str]:
    sent, expected = result.job.bytes_sent, result.job.bytes_expected
    checks = {
        "the losses are not PyTorch's": result.is_close(),
        f"nodes sent {sent} bytes in a step, expected {expected}": sent == {expected},
        f"the job was resumed at steps {result.job.resumed_at}, expected two kills": len(result.job.resumed_at) == 2,
        "the log does not have each step": len(result.job.curve.losses) == settings.steps,
    }
    return [fault for fault, holds in checks.items() if not holds]


if __name__ == "__main__":
    sys.exit(main())
