#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares predictions of fcdp-sim with published training runs on clusters that we do not have.

With --data, predicts the runs of each source of sources/ with nothing fitted to it, and prints the errors by source: as
predicted, and times a factor that all other sources give. The parts compare figures of papers. Prints each figure as
published and as predicted, and the goals. Ends with an error if a goal is missed. Models are exported without weights,
which takes a minute or two for each of the larger ones. --cache keeps them.
"""

import argparse
import importlib
import json
import re
import sys
import tempfile
from pathlib import Path

import judge
import paper
from runs import Source
from steps import Steps
from simulation import Part, Simulator

ROOT = Path(__file__).resolve().parents[2]
PARTS = {
    "throughput": lambda simulator, args: paper.throughput(simulator),
    "batch": lambda simulator, args: paper.table5(simulator),
    "memory": lambda simulator, args: paper.memory(simulator),
    "peft": lambda simulator, args: paper.table7(simulator),
    "zero++": lambda simulator, args: paper.zeropp(simulator),
}
TABLES = Path(__file__).resolve().parent / "tables"
SOURCES = sorted(path.stem for path in (Path(__file__).parent / "sources").glob("[a-z]*.py"))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: .venv/bin/python benchmarks/simulator/validate.py --data --sources nanotron fms --cache steps",
    )
    parser.add_argument("--data", type=Path, nargs="?", const=TABLES, help="folder of the sources' tables as CSV (default: tables beside this script)")
    parser.add_argument("--sources", nargs="+", choices=SOURCES, default=SOURCES, help="sources to predict (default: all)")
    parser.add_argument("--rows", type=re.compile, default=re.compile(""), help="predicts runs whose name this expression matches only")
    parser.add_argument("--json", type=Path, help="writes each predicted quantity of the sources to this file")
    parser.add_argument("--parts", nargs="+", choices=PARTS, help="parts to run (default: none with --data, or all)")
    parser.add_argument("--cache", type=Path, help="folder for exported steps (default: they are not kept)")
    parser.add_argument("--tools", type=Path, default=ROOT / "build/bin", help="folder of fcdp-sim (default build/bin)")
    args = parser.parse_args()
    names = args.parts or ([] if args.data else list(PARTS))
    sources = [load(name, args.data, args.rows) for name in args.sources] if args.data else []
    with tempfile.TemporaryDirectory() as folder:
        simulator = Simulator(args.tools, Steps(args.cache or Path(folder), args.tools), Path(folder))
        judgement = judge.judge(simulator, sources)
        parts = [PARTS[name](simulator, args) for name in names]
    if args.json:
        args.json.write_text(json.dumps(judge.as_json(judgement), indent=1))
    if sources:
        judge.show(judgement, sources)
        parts += [judge.judge_goals(judgement, args.sources), judge.judge_memory(judgement)]
    for part in parts:
        part.show()
    return summarize(parts)


def load(name: str, data: Path, rows: re.Pattern) -> Source:
    source = importlib.import_module(f"sources.{name}").load(data)
    source.runs = [run for run in source.runs if rows.search(run.name)]
    return source


def summarize(parts: list[Part]) -> int:
    print()
    missed = [(part, goal) for part in parts for goal in part.goals if not goal.holds]
    for part in parts:
        met = sum(goal.holds for goal in part.goals)
        print(f"{part.source}: {len(part.rows)} rows, {met} of {len(part.goals)} goals")
    for part, goal in missed:
        print(f"simulator: error: {part.source}: expected {goal.text}, got {goal.found}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
