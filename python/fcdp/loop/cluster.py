# SPDX-License-Identifier: Apache-2.0
"""Measures the machines and links of a job, and keeps what was found for the next job on them."""

import contextlib
import functools
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fcdp.loop.install import find_install
from fcdp.loop.job import Job

# A probe takes 9 to 11 seconds for four ranks on two idle cores, and took 14 on an H200. A machine that is far too
# busy must not keep a job from starting.
_MOST_SECONDS = 300
# The variables that start a rank, whichever launcher this process has (runtime/job/Launch.cpp). A store of
# torchrun's agent is not used: fcdp-run's rank 0 serves one of its own.
_DROPPED = ("TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_RUN_ID")


@dataclass(frozen=True)
class ProbeRequest:
    """The settings of a probe, besides the ranks that a job has."""

    is_for_gpus: bool
    threads: int | None
    """Threads of operators; None is the machine's cores divided by the ranks on it."""
    interface: str
    """The network interface for traffic between ranks; empty is the one by which the job's store is reached."""


def measured_cluster(job: Job, cache: Path, request: ProbeRequest) -> Path | None:
    """Collective. Returns the path of a description of the job's machines and links, which is on rank 0's machine.

    It is kept in `cache` for later jobs with the same hosts, processors, devices and interfaces. None if nothing could
    be measured, which a warning says on rank 0.
    """
    hardware = job.gather("hardware", json.dumps(_hardware(job, request), sort_keys=True).encode())
    found = json.loads(job.first_makes("cluster", functools.partial(_find_kept, cache, hardware, job)))
    path = Path(found["path"])
    if "port" in found:
        own = _probe(job, request, path, found["host"], found["port"])
        problem = job.first_makes("measured", own.encode).decode()
        if problem and job.launch.rank == 0:
            warnings.warn(
                f"the job's machines and links could not be measured ({problem}): the strategy is 'fcdp'; name another one, "
                "or give fcdp.compile a description with cluster=FILE",
                RuntimeWarning,
                stacklevel=5,
            )
        if problem:
            return None
    return path


def _hardware(job: Job, request: ProbeRequest) -> dict[str, Any]:
    """Describes what this rank runs on, as far as it decides what a probe finds."""
    found: dict[str, Any] = {
        "place": [job.launch.node, job.launch.local],
        "host": socket.gethostname(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": request.threads,
        "interface": request.interface,
        "addresses": _addresses(),
        "torch": torch.__version__,
    }
    if request.is_for_gpus:
        device = torch.cuda.get_device_properties(job.launch.local % max(torch.cuda.device_count(), 1))
        found["gpu"] = [device.name, device.total_memory]
    return found


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return "unknown"


def _addresses() -> list[str]:
    """Returns the names of the network interfaces with their speeds in Mb/s, where the kernel knows them."""
    found = []
    for folder in sorted(Path("/sys/class/net").glob("*")):
        speed = ""
        with contextlib.suppress(OSError):  # of an interface that is down
            speed = (folder / "speed").read_text().strip()
        found.append(f"{folder.name} {speed}")
    return found


def _find_kept(cache: Path, hardware: list[bytes], job: Job) -> bytes:
    """Returns, as JSON, where the description is, and the address at which the ranks meet to measure it if it is not
    there.
    """
    key = hashlib.sha256(b"\0".join(hardware)).hexdigest()[:16]
    path = cache / "clusters" / f"{key}.yaml"
    if path.is_file():
        return json.dumps({"path": str(path)}).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError:  # which the step's own place in the cache warns of
        path = Path(tempfile.mkdtemp(prefix="fcdp-cluster-")) / path.name
    # Standard error, as the stages of an export.
    print(
        f"fcdp: measuring the machines and links of this job, once ({job.launch.nodes} x {job.launch.ranks_per_node} ranks)",
        file=sys.stderr,
        flush=True,
    )
    host = _own_address(job)
    with socket.create_server((host, 0)) as listening:
        port = listening.getsockname()[1]
    return json.dumps({"path": str(path), "host": host, "port": port}).encode()


def _own_address(job: Job) -> str:
    """Returns the address by which the other ranks reach this machine."""
    if job.launch.nodes == 1:
        return "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as toward:
        toward.connect((job.launch.host, job.launch.port))  # sends nothing
        address = toward.getsockname()[0]
    return job.launch.host if address.startswith("127.") else address


def _probe(job: Job, request: ProbeRequest, path: Path, host: str, port: int) -> str:
    """Collective. Has all ranks measure, and rank 0 write `path`. Returns what went wrong, or an empty text."""
    launch = job.launch
    variables = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    variables |= {
        "RANK": str(launch.rank),
        "WORLD_SIZE": str(launch.num_ranks),
        "LOCAL_RANK": str(launch.local),
        "LOCAL_WORLD_SIZE": str(launch.ranks_per_node),
        "GROUP_RANK": str(launch.node),
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
    }
    if len(launch.secret) >= 16:
        variables["FCDP_JOB_KEY"] = launch.secret
    else:
        variables["TORCHELASTIC_RUN_ID"] = launch.secret
    command = [str(find_install().compiler.with_name("fcdp-run")), f"--probe-cluster={path}"]
    command += ["--target=cuda"] if request.is_for_gpus else []
    command += [f"--threads={request.threads}"] if request.threads is not None else []
    command += [f"--interface={request.interface}"] if request.interface else []
    try:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=_MOST_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines()
    return lines[-1].removeprefix("error: ") if lines else f"fcdp-run ended with code {done.returncode}"


def describe_age(path: Path) -> str:
    """Returns when a kept description was measured: "2026-11-27"; "another day" on a machine that does not have it."""
    try:
        return time.strftime("%Y-%m-%d", time.localtime(path.stat().st_mtime))
    except OSError:
        return "another day"
