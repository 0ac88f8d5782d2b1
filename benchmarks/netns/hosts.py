# SPDX-License-Identifier: Apache-2.0
"""Makes hosts on one machine: network namespaces joined by a bridge in a namespace of its own.

It also has helpers for benchmarks on such hosts.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DEVICE = "uplink"
TCP = 0.955  # share of a link's bandwidth that is left after the headers of TCP and Ethernet


@dataclass(frozen=True)
class Host:
    """A network namespace, whose only interface is DEVICE."""

    name: str
    address: str

    def command(self, *arguments: str) -> list[str]:
        """Returns the command that runs `arguments` on this host."""
        return ["ip", "netns", "exec", self.name, *arguments]

    def sent_bytes(self) -> int:
        """Returns the bytes that the kernel has counted at the uplink: frames with all headers."""
        (link,) = json.loads(_ip("-n", self.name, "-s", "-j", "link", "show", "dev", DEVICE))
        return int(link["stats64"]["tx"]["bytes"])


def why_impossible() -> str | None:
    """Returns the reason why hosts cannot be made on this machine, or None if they can."""
    if os.geteuid() != 0:
        return "needs root"
    try:
        _ip("netns", "add", name := f"fcdp-probe-{os.getpid()}")
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no network namespaces: {getattr(error, 'stderr', error)}".strip()
    _ip("netns", "delete", name)
    return None


def require_hosts(program: str) -> None:
    """Ends the program with an error if hosts cannot be made on this machine."""
    if reason := why_impossible():
        sys.exit(f"{program}: error: {reason}")


def report_wrong(program: str, wrong: list[str]) -> int:
    """Prints the errors that a benchmark found. Returns its exit status."""
    for what in wrong:
        print(f"{program}: error: {what}", file=sys.stderr)
    return 1 if wrong else 0


def describe_cluster(path: Path, megabits: int) -> Path:
    """Writes to `path` the preset `cpu` with uplinks of that bandwidth."""
    text = (Path(__file__).resolve().parents[2] / "cluster/cpu.yaml").read_text()
    text, count = re.subn(r"(inter:\n  bandwidth: )\S+", rf"\g<1>{megabits * 1e6 / 8 * TCP:g}", text)
    assert count == 1
    path.write_text(text)
    return path


@contextlib.contextmanager
def hosts(count: int, megabits: int | None = None) -> Iterator[list[Host]]:
    """Makes `count` hosts and removes them at the end. megabits: limit of an uplink per second and direction, or None.
    """
    prefix = f"fcdp-{os.getpid()}"
    switch = f"{prefix}-switch"
    made = [Host(f"{prefix}-{i}", f"10.99.0.{i + 1}") for i in range(count)]
    try:
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for i, host in enumerate(made):
            _connect(host, switch, f"port{i}")
            if megabits is not None:
                _limit(host.name, DEVICE, megabits)
        yield made
    finally:
        for name in [*(host.name for host in made), switch]:
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", name)


def _connect(host: Host, switch: str, port: str) -> None:
    _ip("netns", "add", host.name)
    _ip("-n", host.name, "link", "add", DEVICE, "type", "veth", "peer", "name", port, "netns", switch)
    _ip("-n", switch, "link", "set", port, "master", "bridge", "up")
    _ip("-n", host.name, "address", "add", f"{host.address}/24", "dev", DEVICE)
    _ip("-n", host.name, "link", "set", DEVICE, "up")
    _ip("-n", host.name, "link", "set", "lo", "up")


def _limit(namespace: str, device: str, megabits: int) -> None:
    """Limits outgoing traffic. Incoming traffic is limited where it is sent."""
    # A burst of 2 ms, and a queue of 50 ms.
    burst = max(megabits * 1_000_000 // 8 // 500, 20_000)
    shape = ["root", "tbf", "rate", f"{megabits}mbit", "burst", str(burst), "latency", "50ms"]
    _run("tc", "-n", namespace, "qdisc", "add", "dev", device, *shape)


def _ip(*arguments: str) -> str:
    return _run("ip", *arguments)


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
