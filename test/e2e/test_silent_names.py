# SPDX-License-Identifier: Apache-2.0
"""A job needs no name server: ranks must not look dead while PyTorch's store waits for the names of its peers."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from harness import Config, Workshop, environment, run_command

ADDRESS = "127.53.53.53"

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare, to replace /etc/resolv.conf"
)


def test_no_names_are_looked_up(workshop: Workshop, tmp_path: Path) -> None:
    model = workshop.model("gpt")
    resolver = tmp_path / "resolv.conf"
    resolver.write_text(f"nameserver {ADDRESS}\n")
    command = run_command(workshop.step(Config("gpt")), model.archive, model.inputs, 2)
    private = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"', resolver, *command]
    with socket.socket(type=socket.SOCK_DGRAM) as server:
        server.bind((ADDRESS, 53))
        done = subprocess.run(private, env=environment(), capture_output=True, text=True, timeout=120)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.recv(512)
    assert done.returncode == 0, done.stderr
    assert "step 2" in done.stdout
