# SPDX-License-Identifier: Apache-2.0
"""fcdp-run --report-environment describes a machine, and keeps what is nobody's business."""

import os
import re
import resource
import socket
import subprocess
from pathlib import Path

import torch

from harness import BIN, environment

SECRETS = {
    "FCDP_JOB_KEY": "a-key-that-nobody-may-see",
    "MASTER_ADDR": "203.0.113.77",
    "NCCL_SOCKET_IFNAME": "an-interface-of-mine",
    "HOME": "/home/somebody",
}


def report(variables: dict[str, str] | None = None, **arguments) -> dict[str, str]:
    done = subprocess.run(
        [BIN / "fcdp-run", "--report-environment"],
        env=environment(variables or {}),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        **arguments,
    )
    assert done.stderr == ""
    lines = [line.split(": ", 1) for line in done.stdout.splitlines()]
    assert all(len(line) == 2 and all(line) for line in lines), done.stdout
    return dict(lines)


def test_versions_and_hardware() -> None:
    said = report()
    assert said["libtorch"].startswith(torch.__version__.split("+")[0] + ", kernels for ")
    assert re.match(r"\d+\.\d+\.\d+, objects of format \d+, with(out)? CUDA, built by .*\d", said["fcdp"])
    assert os.uname().release in said["system"]
    assert f"{os.cpu_count()} cores, of which this process may use {len(os.sched_getaffinity(0))}" in said["processor"]
    total = re.search(r"MemTotal:\s+(\d+ kB)", Path("/proc/meminfo").read_text())
    assert total and said["memory"].startswith(f"{total[1]}, available ")
    mtu = Path("/sys/class/net/lo/mtu").read_text().strip()
    assert f"MTU {mtu}" in said["link lo"]


def test_limits_are_those_of_the_process() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fewer = min(soft, hard, 1000) - 1
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (fewer, hard))  # noqa: E731
    assert report(preexec_fn=limit)["limit of open files"] == f"{fewer} (at most {hard})"


def test_variables_of_launchers() -> None:
    said = report({"RANK": "3", "WORLD_SIZE": "4\n", "OMP_NUM_THREADS": "2", **SECRETS})
    assert (said["RANK"], said["OMP_NUM_THREADS"]) == ("3", "2")
    # A control character stays on its line.
    assert said["WORLD_SIZE"] != "4" and said["WORLD_SIZE"].startswith("4")
    assert {"FCDP_JOB_KEY", "MASTER_ADDR", "NCCL_SOCKET_IFNAME"} <= set(said["also set"].split(", "))


def test_what_is_not_said() -> None:
    text = "\n".join(f"{name}: {value}" for name, value in report(SECRETS).items())
    for secret in [*SECRETS.values(), socket.gethostname()]:
        assert secret not in text
    # No address of a link, of IPv4 or IPv6 or hardware.
    assert not re.search(r"\b\d+\.\d+\.\d+\.\d+\b(?!-)", re.sub(r"^(system|fcdp|libtorch): .*$", "", text, flags=re.M))
    assert not re.search(r"\b[0-9a-f]{2}(:[0-9a-f]{2}){5}\b|fe80", text)


def test_a_full_disk() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [BIN / "fcdp-run", "--report-environment"],
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1 and "error: standard output: No space left on device" in done.stderr
