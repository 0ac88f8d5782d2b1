# SPDX-License-Identifier: Apache-2.0
"""Links between ranks that are slow or fail: a proxy on loopback that delays what it passes on, and hosts whose link is
cut."""

import contextlib
import select
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator

from harness import ROOT

sys.path.insert(0, str(ROOT / "benchmarks" / "netns"))

from hosts import DEVICE, Host, hosts, why_impossible  # noqa: E402

CHUNK = 1 << 16


class _Way:
    """One direction of a connection: bytes and the times at which they leave."""

    def __init__(self, source: socket.socket, target: socket.socket):
        self.source, self.target = source, target
        self.waiting: deque[tuple[float, bytes]] = deque()
        self.is_open = True


class Proxy:
    """Passes connections on to a port, each direction `delay` seconds late. While `is_silent`, it passes nothing on."""

    def __init__(self, port: int, delay: float):
        self.target, self.delay = port, delay
        self.is_silent = False
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listening.getsockname()[1]
        self._ways: list[_Way] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self._listening.close()
        for way in self._ways:
            way.source.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            sources = {way.source: way for way in self._ways if way.is_open}
            readable, _, _ = select.select([self._listening, *sources], [], [], 0.002)
            for ready in readable:
                if ready is self._listening:
                    self._connect()
                else:
                    self._receive(sources[ready])
            if not self.is_silent:
                for way in self._ways:
                    self._pass_on(way)

    def _connect(self) -> None:
        near, _ = self._listening.accept()
        try:
            far = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            near.close()
            return
        for one in (near, far):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ways += [_Way(near, far), _Way(far, near)]

    def _receive(self, way: _Way) -> None:
        try:
            got = way.source.recv(CHUNK)
        except OSError:
            got = b""
        way.waiting.append((time.monotonic() + self.delay, got))
        way.is_open = bool(got)

    def _pass_on(self, way: _Way) -> None:
        while way.waiting and way.waiting[0][0] <= time.monotonic():
            _, data = way.waiting.popleft()
            with contextlib.suppress(OSError):
                if data:
                    way.target.sendall(data)
                else:
                    way.target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def delayed(port: int, delay: float) -> Iterator[Proxy]:
    proxy = Proxy(port, delay)
    try:
        yield proxy
    finally:
        proxy.close()


def cut(host: Host, is_cut: bool) -> None:
    """Takes the link of a host down, or up again."""
    state = "down" if is_cut else "up"
    subprocess.run(["ip", "-n", host.name, "link", "set", DEVICE, state], check=True, capture_output=True, text=True)
