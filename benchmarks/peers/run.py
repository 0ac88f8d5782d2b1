#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains one model with fcdp and with other systems, on two hosts of two ranks, and compares time, traffic and memory.

Hosts are network namespaces. Model, rows of text, initial values, optimizer and threads are the same for all. Each row
runs once for one step, which shows whether it can run here, and then once per round in turn with the others. Rows that
cannot run are listed with the reason. Ends with an error if a row's losses are not those of fcdp within the tolerance,
or if fcdp does not send the bytes that it planned. Results are kept, and a run with the same folder measures what is
missing. Needs root. All ranks share this machine's cores.
"""

import argparse
import sys
import warnings
from pathlib import Path

from netns import report_wrong, require_hosts
from settings import Setting
from steps import MODELS, ROOT
from rows import DTYPES, FIRST, ROWS, SHORT, chosen

FOLDER = ROOT / "build" / "peers"


def link(text: str) -> int | None:
    return None if text == "none" else int(text)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: .venv/bin/python benchmarks/peers/run.py --peers all --document docs/benchmarks.md",
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["gpt"])
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=["f32"])
    parser.add_argument("--micro-batches", nargs="+", type=int, default=[1], metavar="K")
    links = "bandwidth of each host's uplink and direction in Mbit/s, or 'none' for no limit (default 1000)"
    parser.add_argument("--megabits", nargs="+", type=link, default=[1000], metavar="M", help=links)
    peers = f"rows beside fcdp: all, or some of {', '.join(ROWS)} (default: {' '.join(SHORT)})"
    parser.add_argument("--peers", nargs="+", choices=["all", *ROWS], default=SHORT, metavar="NAME", help=peers)
    parser.add_argument("--steps", type=int, default=4, help="steps per run; the first is not counted (default 4)")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each row (default 2)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds until a run is given up (default 300)")
    folder = "for files; results.json in it is continued (default build/peers)"
    parser.add_argument("--folder", type=Path, default=FOLDER, help=folder)
    parser.add_argument("--fresh", action="store_true", help="measure the chosen rows again")
    page = "a page to write the tables of all results into, between its markers, with pictures beside it"
    parser.add_argument("--document", type=Path, metavar="PAGE", help=page)
    parser.add_argument("--no-pictures", action="store_true", help="leave pictures out of --document")
    row = "a page whose row of FSDP2 is written, from the results for gpt in f32"
    parser.add_argument("--row", type=Path, metavar="PAGE", help=row)
    args = parser.parse_args()
    if args.steps < 2:
        parser.error(f"argument --steps: expected at least 2, got {args.steps}")
    if args.rounds < 0:
        parser.error(f"argument --rounds: expected at least 0, got {args.rounds}")
    return args


def main() -> int:
    args = parse()
    # Imported late, so that --help is fast.
    import document
    from measure import Bench
    from packages import versions
    from results import Results
    from tables import print_table, wrong_rows

    settings = [
        Setting(model, dtype, count, megabits)
        for model in args.models
        for dtype in args.dtypes
        for count in args.micro_batches
        for megabits in args.megabits
    ]
    # torch.export warns of its own use of LeafSpec.
    warnings.filterwarnings("ignore", category=FutureWarning, message=".*LeafSpec")
    results = Results.read(args.folder / "results.json")
    names = list(ROWS) if "all" in args.peers else args.peers
    if args.rounds:
        require_hosts("peers")
        bench = Bench(results, args.folder, args.steps, args.rounds, args.timeout)
        results.versions |= versions({getattr(ROWS[name], "package", "") for name in names})
        if args.fresh:
            results.forget(settings, {FIRST.name, *names})
        for setting in settings:
            bench.measure(setting, chosen(names, setting.dtype, setting.micro_batches))
            print_table(setting, results)
    wrong = [fault for setting in results.settings() for fault in wrong_rows(setting, results)]
    if args.document:
        document.write(results, args.document, not args.no_pictures)
    if args.row:
        document.write_row(results, args.row)
    return report_wrong("peers", wrong)


if __name__ == "__main__":
    sys.exit(main())
