# SPDX-License-Identifier: Apache-2.0
"""The long form of the suite: many tries of each kind, and a table of how many went wrong, for docs/jobs.md.
Ctrl-C ends it with the table so far.

    .venv/bin/python test/chaos/run.py --tries=50 --seed=1
"""

import argparse
import collections
import contextlib
import tempfile
from pathlib import Path

import loops
import network
import no_files
import tries
from tries import Workshop, undisturbed

NO_NETWORK = network.why_impossible()
KINDS = {
    **{kind: tries.attempt for kind in tries.ACCIDENTS if kind not in tries.IMPOSSIBLE},
    **{kind: no_files.attempt for kind in no_files.KINDS},
    **{kind: loops.attempt for kind in loops.KINDS},
    **{kind: network.attempt for kind in network.ACCIDENTS if not NO_NETWORK},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=50, help="number of tries of each kind")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first try; the others follow")
    parser.add_argument("--kind", choices=list(KINDS), action="append", help="default: all")
    args = parser.parse_args()
    if NO_NETWORK:
        print(f"the network is left out: {NO_NETWORK}")
    for kind, reason in tries.IMPOSSIBLE.items():
        print(f"{kind} is left out: {reason}")
    tried: collections.Counter[str] = collections.Counter()
    wrong: collections.Counter[str] = collections.Counter()
    kinds = args.kind or list(KINDS)
    with tempfile.TemporaryDirectory() as name:
        workshop = Workshop(Path(name))
        losses = undisturbed(workshop, Path(name) / "undisturbed")
        with contextlib.suppress(KeyboardInterrupt):
            for seed in range(args.seed, args.seed + args.tries):
                for kind in kinds:
                    problem = KINDS[kind](workshop, Path(name) / "try", kind, seed, losses)
                    tried[kind] += 1
                    wrong[kind] += bool(problem)
                    if problem:
                        print(f"{kind}, seed {seed}: {problem}", flush=True)
    print("| what happens | tried | wrong |\n|---|---|---|")
    for kind in kinds:
        print(f"| {kind} | {tried[kind]} | {wrong[kind]} |")
    raise SystemExit(bool(wrong.total()))


if __name__ == "__main__":
    main()
