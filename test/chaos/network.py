# SPDX-License-Identifier: Apache-2.0
"""Tries what goes wrong on the network between two nodes with two ranks.

Each rank is started by itself, as launchers do, on one of two hosts. Strangers have a third host. See tries.py for what
a try is. A job that ends must end on all ranks, and each must say in one error which rank it has lost.
"""

import random
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from tries import CONFIG, END_SECONDS, ENDS, GOES_ON, LOG, OUT, STEPS, Expected, leftovers

# tries.py has made them known.
from harness import Workshop, rank_environment, read_log, run_command, started  # isort: skip
from wire import CUT, Fault, Host, Wire, why_impossible, wired, within  # isort: skip

NODES, RANKS = 2, 4
PORT = 29500
# Silence of this many seconds ends a job: a tenth of the time-out, but at least 6.
TIMEOUT, LIMIT = 100, 10
SHORT_TIMEOUT = 10


@dataclass
class NetworkJob:
    folder: Path
    hosts: list[Host]
    wire: Wire
    ranks: list[subprocess.Popen[str]]
    random: random.Random
    strangers: list[socket.socket] = field(default_factory=list)

    def steps(self) -> int:
        log = self.folder / LOG
        return len(log.read_text().splitlines()) if log.exists() else 0

    def is_over(self) -> bool:
        return any(rank.poll() is not None for rank in self.ranks)

    def wait_for_step(self, step: int) -> None:
        deadline = time.monotonic() + END_SECONDS
        while self.steps() < step and not self.is_over() and time.monotonic() < deadline:
            time.sleep(0.02)

    def table(self, node: int, state: str) -> list[tuple[int, int]]:
        """The ports, here and there, of a host's connections in a state."""
        found = []
        for line in Path(f"/proc/{self.ranks[node * RANKS // NODES].pid}/net/tcp").read_text().splitlines()[1:]:
            _, near, far, of = line.split()[:4]
            if of == state and not near.startswith("0100007F"):
                found.append((int(near.split(":")[1], 16), int(far.split(":")[1], 16)))
        return found

    def listening(self) -> list[tuple[str, int]]:
        """Addresses that another host can reach."""
        return sorted((self.hosts[node].address, near) for node in range(NODES) for near, _ in self.table(node, "0A"))

    def store(self) -> int:
        """Returns the port of the job's store. Rank 1 has more connections to it than to any other port."""
        ports = [far for _, far in self.table(1, "01")]
        return max(set(ports), key=ports.count)


def some_connections(job: NetworkJob, fault: Fault) -> Fault:
    """The same for all connections, for those to the store, or for all others."""
    which = job.random.randrange(3)
    store = frozenset([job.store()])
    return replace(fault, ports=store if which == 1 else frozenset(), spares=store if which == 2 else frozenset())


def outage(job: NetworkJob) -> Expected:
    """TCP goes on as long after an outage as that was, so half of the limit."""
    job.wire.fault = some_connections(job, CUT)
    time.sleep(job.random.uniform(0.1, 0.45 * LIMIT))
    job.wire.fault = None
    return GOES_ON


def cut(job: NetworkJob) -> Expected:
    job.wire.fault = CUT
    return ENDS


def slow(job: NetworkJob) -> Expected:
    seconds = job.random.uniform(0.01, 0.4)
    job.wire.fault = some_connections(job, Fault(delay=seconds, jitter=job.random.choice([0, seconds])))
    time.sleep(job.random.uniform(1, 4))
    job.wire.fault = None
    return GOES_ON


def lose(job: NetworkJob) -> Expected:
    shares = [job.random.choice([0, job.random.uniform(0, 0.1)]) for _ in range(3)]
    job.wire.fault = Fault(0.001, job.random.choice([0, 0.02]), *shares)
    time.sleep(job.random.uniform(1, 4))
    job.wire.fault = None
    return GOES_ON


def reset(job: NetworkJob) -> Expected:
    """One connection between the hosts. None but those for data and for the monitor are needed until the end."""
    near, far = job.random.choice([ports for ports in job.table(1, "01")])
    kill = ["ss", "-K", "-t", "-H", "sport", "=", f":{near}", "and", "dport", "=", f":{far}"]
    done = subprocess.run(job.hosts[1].command(*kill), check=True, capture_output=True, text=True)
    assert done.stdout.count("ESTAB") == 1, done
    return Expected(True, True, r"rank \d")


def stop(job: NetworkJob) -> Expected:
    rank = job.random.choice(job.ranks)
    rank.send_signal(signal.SIGSTOP)
    time.sleep(job.random.uniform(0.1, 0.5 * LIMIT))
    rank.send_signal(signal.SIGCONT)
    return GOES_ON


def lose_host(job: NetworkJob) -> Expected:
    """All processes of a host stop for good."""
    node = job.random.randrange(NODES)
    for rank in job.ranks[node * RANKS // NODES :][: RANKS // NODES]:
        rank.kill()
    return ENDS


def visit(job: NetworkJob, address: tuple[str, int], words: bytes, stays: bool) -> None:
    """Somebody connects, says something, and stays or leaves."""

    def connect() -> None:
        with suppress(OSError):
            stranger = socket.create_connection(address, timeout=1)
            stranger.sendall(words)
            if stays:
                job.strangers.append(stranger)
            else:
                stranger.close()

    within(job.hosts[2], connect)


def some_words(job: NetworkJob) -> bytes:
    return job.random.choice([b"", job.random.randbytes(job.random.randrange(1, 200)), b"GET / HTTP/1.1\r\n\r\n"])


def visit_running(job: NetworkJob) -> Expected:
    words, stays = some_words(job), job.random.choice([True, False])
    for address in job.listening():
        for _ in range(job.random.randrange(1, 10)):
            visit(job, address, words, stays)
    return GOES_ON


def visit_each_port(job: NetworkJob, words: list[bytes], stays: bool) -> None:
    """Until the first step, as soon as a rank listens at a port."""
    seen: set[tuple[str, int]] = set()
    while job.steps() == 0 and not job.is_over():
        with suppress(OSError):
            for address in set(job.listening()) - seen:
                seen.add(address)
                for one in words:
                    visit(job, address, one, stays)
        time.sleep(0.005)


def visit_starting(job: NetworkJob) -> Expected:
    visit_each_port(job, [some_words(job)], job.random.choice([True, False]))
    return GOES_ON


def take_places(job: NetworkJob) -> Expected:
    """Gloo's connections begin with a number of 8 bytes, which counts from 0. Who says it first has a rank's place."""
    visit_each_port(job, [bytes([number, *bytes(7)]) for number in range(4)], stays=True)
    return Expected(True, True, r"rank \d.*has a process that does not belong to the job taken its place")


@dataclass(frozen=True)
class Accident:
    do: Callable[[NetworkJob], Expected]
    timeout: int = TIMEOUT
    when_starting: bool = False


ACCIDENTS = {
    "the link is down for a while": Accident(outage),
    "the link is down": Accident(cut, SHORT_TIMEOUT),
    "the link is slow for a while": Accident(slow),
    "packets are lost, repeated, changed and late": Accident(lose),
    "a connection is reset": Accident(reset, SHORT_TIMEOUT),
    "a rank of a host is stopped for a while": Accident(stop),
    "a host is lost": Accident(lose_host, SHORT_TIMEOUT),
    "a stranger connects to all ports": Accident(visit_running),
    "a stranger connects while ranks meet": Accident(visit_starting, when_starting=True),
    "a stranger takes the places of ranks": Accident(take_places, SHORT_TIMEOUT, when_starting=True),
}


def errors_of(job: NetworkJob, accident: Accident, said: list[str]) -> list[list[str]]:
    """The errors of each rank that had to say one. Before ranks have met, one rank of each host speaks for all."""
    step = NODES if accident.when_starting else 1
    killed = [rank.returncode == -signal.SIGKILL for rank in job.ranks]
    return [re.findall("error: .*", said[rank]) for rank in range(0, RANKS, step) if not killed[rank]]


def judge(job: NetworkJob, accident: Accident, expected: Expected, said: list[str], losses: list[float]) -> str:
    codes = [rank.returncode for rank in job.ranks]
    ended = any(codes)
    if ended and not expected.may_end:
        return f"ended with {codes}: {said}"
    if not ended and not expected.may_go_on:
        return "went on as if nothing had happened"
    if ended and not {1, -signal.SIGKILL}.issuperset(codes):
        return f"expected exit code 1 of each rank, got {codes}: {said}"
    for errors in errors_of(job, accident, said) if ended else []:
        if len(errors) != 1 or not re.search(expected.names or r"rank \d", errors[0]):
            return f"expected one error of each rank that names a rank, got {codes}: {said}"
    done = [step["loss"] for step in read_log(job.folder / LOG)] if job.steps() else []
    if done != losses[: len(done)] or (not ended and len(done) != STEPS):
        return f"computed something else in {len(done)} steps"
    # Rank 0 has the files of the job. Nobody is left to clear up after it.
    return "" if codes[0] == -signal.SIGKILL else leftovers(job.folder)


def attempt(workshop: Workshop, folder: Path, kind: str, seed: int, losses: list[float]) -> str:
    """Does one thing to one job; returns what is wrong, or an empty text."""
    accident = ACCIDENTS[kind]
    shutil.rmtree(folder, ignore_errors=True)
    (folder / OUT).parent.mkdir(parents=True)
    model = workshop.model(CONFIG.model)
    files = (f"--json={folder / LOG}", f"--params-out={folder / OUT}", f"--timeout={accident.timeout}")
    command = [str(part) for part in run_command(workshop.step(CONFIG), model.archive, model.inputs, STEPS, *files)]
    with wired(NODES + 1, seed) as (hosts, wire):
        commands = [
            (
                hosts[rank * NODES // RANKS].command(*command),
                {**rank_environment(CONFIG, rank, PORT, hosts[0].address), "FCDP_JOB_KEY": f"the key of job {seed}"},
            )
            for rank in range(RANKS)
        ]
        with started(commands) as ranks:
            job = NetworkJob(folder, hosts, wire, ranks, random.Random(seed))
            try:
                return run(job, accident, losses)
            finally:
                for stranger in job.strangers:
                    stranger.close()


def run(job: NetworkJob, accident: Accident, losses: list[float]) -> str:
    if not accident.when_starting:
        job.wait_for_step(job.random.randrange(1, STEPS // 4))
        if job.is_over():
            return f"ended before anything was done: {[rank.communicate()[1] for rank in job.ranks]}"
    expected = accident.do(job)
    end = time.monotonic() + END_SECONDS
    said = []
    try:
        for rank in job.ranks:
            said.append(rank.communicate(timeout=max(end - time.monotonic(), 0.1))[1])
    except subprocess.TimeoutExpired:
        return f"still ran after {END_SECONDS} seconds and {job.steps()} steps"
    return judge(job, accident, expected, said, losses)
