# SPDX-License-Identifier: Apache-2.0
"""Runs fcdp-run in processes that fork from one which has loaded libtorch. To load it takes longer than most tests
run."""

import os
import socket
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path


class ForkedRun:
    """One process of build/bin/fork-run.

    A run sees what one of fcdp-run does, except that libraries read their variables when they were loaded.
    """

    def __init__(self, program: Path, environment: Mapping[str, str]):
        self.environment = dict(environment)
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen([program], stdin=theirs, env=self.environment)

    def run(self, command: Sequence[str], timeout: float) -> subprocess.CompletedProcess[str]:
        """Raises subprocess.TimeoutExpired after `timeout` seconds. The object is of no use then."""
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder, name) for name in ("out", "error")]
            for file in files:
                file.touch()
            request = b"".join(os.fsencode(text) + b"\0" for text in (os.getcwd(), *files, *command))
            self._socket.settimeout(timeout)
            try:
                self._socket.sendall(struct.pack("=I", len(request)) + request)
                answer = self._socket.recv(4)
            except TimeoutError:
                self.close()
                raise subprocess.TimeoutExpired(list(command), timeout) from None
            assert len(answer) == 4, f"fork-run ended with exit code {self._process.wait()}"
            (code,) = struct.unpack("=i", answer)
            return subprocess.CompletedProcess(list(command), code, *(file.read_text() for file in files))

    def close(self) -> None:
        """Ends the process, and a run with it."""
        self._process.kill()
        self._process.wait()
        self._socket.close()
