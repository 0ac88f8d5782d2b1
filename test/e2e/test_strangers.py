# SPDX-License-Identifier: Apache-2.0
"""Processes that do not belong to a job are refused and named, and the job goes on."""

import contextlib
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from harness import MANY_STEPS, Config, Workshop, environment, free_port, rank_environment, run_command, started, wait_for_step

CONFIG = Config("gpt", 2, 1)
KEY = {"FCDP_JOB_KEY": "the key of this job"}


@contextlib.contextmanager
def job(workshop: Workshop, port: int) -> Iterator[list[subprocess.Popen[str]]]:
    model = workshop.model("gpt")
    command = run_command(workshop.step(CONFIG), model.archive, model.inputs, MANY_STEPS)
    with started([(command, {**rank_environment(CONFIG, rank, port), **KEY}) for rank in range(2)]) as ranks:
        wait_for_step(ranks[0])
        yield ranks


def expect_alive(ranks: list[subprocess.Popen[str]], seconds: float) -> None:
    time.sleep(seconds)
    assert [rank.poll() for rank in ranks] == [None, None]


def last_words(rank: subprocess.Popen[str]) -> str:
    rank.terminate()
    return rank.communicate(timeout=20)[1]


def listening(process: int) -> set[tuple[str, int]]:
    """The addresses, as the kernel writes them, and ports on which a process listens."""
    sockets = {link.readlink().name for link in Path(f"/proc/{process}/fd").iterdir() if _is_socket(link)}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                address, port = fields[1].split(":")
                found.add((address, int(port, 16)))
    return found


def addresses_of(process: int) -> set[str]:
    return {address for address, _ in listening(process)}


def _is_socket(link: Path) -> bool:
    try:
        return link.readlink().name.startswith("socket:")
    except OSError:
        return False


def test_a_second_process_of_a_rank(workshop: Workshop) -> None:
    port, model = free_port(), workshop.model("gpt")
    command = run_command(workshop.step(CONFIG), model.archive, model.inputs, 1, "--timeout=5")
    with job(workshop, port) as ranks:
        second = {**rank_environment(CONFIG, 1, port), **KEY}
        for variables in (second, {**second, "FCDP_JOB_KEY": "the key of another job"}):
            with started([(command, variables)]) as (stranger,):
                _, errors = stranger.communicate(timeout=60)
            assert stranger.returncode == 1
            expected = "another process has joined the job as launcher rank 1"
            assert (expected if variables is second else "another secret") in errors, errors
        expect_alive(ranks, 3)
        errors = last_words(ranks[0])
    assert "warning: a connection from 127.0.0.1:" in errors and "says that it is launcher rank 1" in errors, errors


def test_silent_and_loud_connections(workshop: Workshop) -> None:
    port = free_port()
    with job(workshop, port) as ranks, contextlib.ExitStack() as stack:
        # The store's, and that of Gloo's connections for data.
        for _, own in listening(ranks[0].pid):
            if own == port:
                continue
            for _ in range(150):
                stack.enter_context(socket.create_connection(("127.0.0.1", own)))
            loud = stack.enter_context(socket.create_connection(("127.0.0.1", own)))
            loud.sendall(b"GET / HTTP/1.1\r\n\r\n")
        expect_alive(ranks, 8)
        errors = last_words(ranks[0])
    for words in ("says nothing: it was refused", "is another program: it was refused"):
        assert len(re.findall(words, errors)) == 1, errors


def test_one_machine_listens_on_loopback_only(workshop: Workshop) -> None:
    model, config = workshop.model("gpt"), Config("gpt", 1, 2)
    command = run_command(workshop.step(config), model.archive, model.inputs, MANY_STEPS)
    loopback = {"0100007F"}
    with started([(command, environment())]) as (launcher,):
        wait_for_step(launcher)
        children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
        assert addresses_of(launcher.pid) == loopback
        assert [addresses_of(int(child)) for child in children] == [loopback] * 2
    port = free_port()
    variables = [rank_environment(config, rank, port, socket.gethostname()) for rank in range(2)]
    with started([(command, one) for one in variables]) as ranks:
        wait_for_step(ranks[0])
        assert [addresses_of(rank.pid) for rank in ranks] == [loopback] * 2
