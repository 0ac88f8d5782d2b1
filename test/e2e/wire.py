# SPDX-License-Identifier: Apache-2.0
"""Hosts whose links lose, delay, repeat and change packets.

Each host is a network namespace with a TAP device. A thread passes frames on between the devices, and does to them what
a fault says. It needs root and /dev/net/tun, and no queueing discipline of the kernel.
"""

import contextlib
import ctypes
import fcntl
import heapq
import os
import random
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from harness import ROOT

sys.path.insert(0, str(ROOT / "benchmarks" / "netns"))

from hosts import DEVICE, Host  # noqa: E402
from hosts import why_impossible as why_no_namespaces  # noqa: E402

TUN = "/dev/net/tun"
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
CLONE_NEWNET = 0x40000000
FRAME = 1 << 16
# Few frames are faster to pass on than many.
MTU = 9000
# As much as a switch keeps of what it cannot send.
MOST_WAITING = 4096
T = TypeVar("T")


@dataclass(frozen=True)
class Fault:
    """A fault of frames: seconds, and shares from 0 to 1. `ports` limits it to TCP connections of these ports, and
    `spares` to all others."""

    delay: float = 0
    jitter: float = 0
    loss: float = 0
    repeated: float = 0
    changed: float = 0
    ports: frozenset[int] = frozenset()
    spares: frozenset[int] = frozenset()

    def hits(self, frame: bytes) -> bool:
        if not self.ports and not self.spares:
            return True
        ports = ports_of(frame)
        return bool(ports & self.ports) if self.ports else not ports & self.spares


CUT = Fault(loss=1)


def ports_of(frame: bytes) -> frozenset[int]:
    """The ports of a frame with TCP over IPv4."""
    if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP:
        return frozenset()
    begin = 14 + 4 * (frame[14] & 15)
    return frozenset(struct.unpack("!HH", frame[begin : begin + 4]))


def why_impossible() -> str | None:
    """Returns the reason why such hosts cannot be made on this machine, or None if they can."""
    if reason := why_no_namespaces():
        return reason
    try:
        with wired(1):
            return None
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no TAP devices: {getattr(error, 'stderr', error)}".strip()


class Wire:
    """Passes frames on between TAP devices. `fault` may be set at any time."""

    def __init__(self, taps: list[int], seed: int):
        self.fault: Fault | None = None
        self._taps = taps
        self._random = random.Random(seed)
        self._places: dict[bytes, int] = {}
        self._waiting: list[tuple[float, int, int, bytes]] = []
        self._count = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        for tap in self._taps:
            os.close(tap)

    def _run(self) -> None:
        while not self._ended.is_set():
            wait = 0.05
            if self._waiting:
                wait = min(max(self._waiting[0][0] - time.monotonic(), 0), wait)
            readable, _, _ = select.select(self._taps, [], [], wait)
            for tap in readable:
                with contextlib.suppress(BlockingIOError):
                    # Others have their turn, too.
                    for _ in range(16):
                        self._receive(tap, os.read(tap, FRAME))
            self._send_due()

    def _receive(self, source: int, frame: bytes) -> None:
        self._places[frame[6:12]] = source
        target = self._places.get(frame[:6])
        for tap in [target] if target is not None else self._taps:
            if tap != source:
                self._pass_on(tap, frame)

    def _pass_on(self, target: int, frame: bytes) -> None:
        fault = self.fault
        if fault is None or not fault.hits(frame):
            return self._add(target, frame, 0)
        if self._random.random() < fault.loss:
            return
        copies = 2 if self._random.random() < fault.repeated else 1
        for _ in range(copies):
            sent = frame
            if self._random.random() < fault.changed:
                at = self._random.randrange(len(frame))
                sent = frame[:at] + bytes([frame[at] ^ 1 << self._random.randrange(8)]) + frame[at + 1 :]
            self._add(target, sent, fault.delay + self._random.uniform(0, fault.jitter))

    def _add(self, target: int, frame: bytes, delay: float) -> None:
        if len(self._waiting) < MOST_WAITING:
            self._count += 1
            heapq.heappush(self._waiting, (time.monotonic() + delay, self._count, target, frame))

    def _send_due(self) -> None:
        while self._waiting and self._waiting[0][0] <= time.monotonic():
            _, _, target, frame = heapq.heappop(self._waiting)
            # A device whose queue is full drops a frame, as others do.
            with contextlib.suppress(BlockingIOError):
                os.write(target, frame)


@contextlib.contextmanager
def wired(count: int, seed: int = 0) -> Iterator[tuple[list[Host], Wire]]:
    """Makes `count` hosts and the wire between them, and removes them at the end."""
    made = [Host(f"fcdp-wire-{os.getpid()}-{i}", f"10.98.0.{i + 1}") for i in range(count)]
    with contextlib.ExitStack() as stack:
        taps = []
        for host in made:
            _ip("netns", "add", host.name)
            stack.callback(_ip, "netns", "delete", host.name)
            taps.append(within(host, _open_tap))
            _ip("-n", host.name, "address", "add", f"{host.address}/24", "dev", DEVICE)
            _ip("-n", host.name, "link", "set", DEVICE, "mtu", str(MTU), "up")
            _ip("-n", host.name, "link", "set", "lo", "up")
        wire = Wire(taps, seed)
        stack.callback(wire.close)
        yield made, wire


def within(host: Host, work: Callable[[], T]) -> T:
    """Calls `work` on a host. The sockets that it makes stay there."""
    done: list[T] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            _enter(f"/run/netns/{host.name}")
            done.append(work())
        except BaseException as error:
            problems.append(error)

    # A namespace is that of a thread.
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if problems:
        raise problems[0]
    return done[0]


def _enter(namespace: str) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    with open(namespace) as file:
        if library.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"{namespace}: {os.strerror(ctypes.get_errno())}")


def _open_tap() -> int:
    """Makes the device of this namespace. It is gone when the descriptor is closed."""
    tap = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TAP | IFF_NO_PI))
    except OSError:
        os.close(tap)
        raise
    return tap


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
