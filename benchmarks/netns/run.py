#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a compiled step on hosts made of network namespaces, and compares its byte counts with the kernel's.

Needs root. All ranks share this machine's cores, so times are meaningful only for slow networks.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from hosts import Host, hosts, require_hosts

ROOT = Path(__file__).resolve().parents[2]
PORT = 29500


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: .venv/bin/python benchmarks/netns/run.py fcdp.so --nodes 2 --ranks-per-node 2 --megabits 200 "
        "-- --weights=step.pt2 --steps=5 --input ids=ids.npy --input labels=labels.npy",
    )
    parser.add_argument("step", type=Path, help="object from fcdp-compile for the same numbers of nodes and ranks")
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--ranks-per-node", type=int, required=True)
    parser.add_argument("--megabits", type=int, help="limit in Mbit/s of each uplink and direction (default: no limit)")
    parser.add_argument("--json", type=Path, default=Path("netns.jsonl"), help="fcdp-run's log (default netns.jsonl)")
    parser.add_argument("arguments", nargs="*", help="arguments for fcdp-run, after --")
    args = parser.parse_args()

    require_hosts("netns")
    command = [str(ROOT / "build/bin/fcdp-run"), str(args.step), f"--json={args.json}", *args.arguments]
    sent, seconds = run(command, args.nodes, args.ranks_per_node, args.megabits)
    steps = [json.loads(line) for line in args.json.read_text().splitlines()]
    counted = sum(step["inter_bytes_sent"] for step in steps)
    print(f"bytes sent per node: counted {counted}, control {sum(step['control_bytes'] for step in steps)}")
    print("bytes sent per node: kernel " + ", ".join(f"{count} ({count / counted:.4f})" for count in sent))
    print("seconds per step: " + ", ".join(f"{step['seconds']:.3f}" for step in steps) + f"; whole run {seconds:.1f}")
    return 0


def run(command: list[str], nodes: int, ranks: int, megabits: int | None, timeout: float = 600) -> tuple[list[int], float]:
    """Runs all ranks; returns the bytes that each host's kernel counted at its uplink, and the seconds.

    Raises RuntimeError with what was printed if a rank fails.
    """
    with hosts(nodes, megabits) as made:
        before = [host.sent_bytes() for host in made]
        begin = time.monotonic()
        processes = [_start(command, made, node, local, ranks) for node in range(nodes) for local in range(ranks)]
        try:
            said = [process.communicate(timeout=timeout)[0] for process in processes]
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        seconds = time.monotonic() - begin
        failed = [process for process in processes if process.returncode != 0]
        if failed:
            raise RuntimeError("".join(said))
        return [host.sent_bytes() - count for host, count in zip(made, before)], seconds


def _start(command: list[str], made: list[Host], node: int, local: int, ranks: int) -> subprocess.Popen[str]:
    variables = {
        "RANK": node * ranks + local,
        "WORLD_SIZE": len(made) * ranks,
        "LOCAL_RANK": local,
        "LOCAL_WORLD_SIZE": ranks,
        "GROUP_RANK": node,
        "GROUP_WORLD_SIZE": len(made),
        "MASTER_ADDR": made[0].address,
        "MASTER_PORT": PORT,
    }
    return subprocess.Popen(
        made[node].command(*command),
        env={**os.environ, **{name: str(value) for name, value in variables.items()}},
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


if __name__ == "__main__":
    sys.exit(main())
