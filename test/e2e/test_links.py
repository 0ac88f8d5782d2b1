# SPDX-License-Identifier: Apache-2.0
"""Slow links are not dead ones, and every rank says what has happened to a link that is."""

import contextlib
import datetime
import hashlib
import hmac
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch.distributed import TCPStore

from harness import LONG, MANY_STEPS, Config, Workshop, free_port, rank_environment, read_log, run_command, started, wait_for_step
from links import Proxy, cut, delayed, hosts, why_impossible
from wire import Fault, wired
from wire import why_impossible as why_no_wire

SECRET = "a job of test_links"
ADDRESS = "fcdp/0/0/store-address"
NO_WIRE = why_no_wire()
CONFIG = Config("gpt", 2, 1)


def variables(config: Config, rank: int, port: int) -> dict[str, str]:
    """Returns the variables of a rank whose launcher serves a TCPStore at `port`."""
    agent = {"TORCHELASTIC_USE_AGENT_STORE": "True", "FCDP_JOB_KEY": SECRET}
    return {**rank_environment(config, rank, port), **agent}


def proof(text: str) -> str:
    parts = ("store-address", "fcdp/0/0", text)
    message = "".join(f"{len(part)}:{part}" for part in parts)
    return hmac.new(SECRET.encode(), message.encode(), hashlib.sha1).hexdigest()


def serve() -> TCPStore:
    limit = datetime.timedelta(seconds=60)
    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=limit)


@contextlib.contextmanager
def job(
    workshop: Workshop, seconds: float, steps: int, *extra: str
) -> Iterator[tuple[list[subprocess.Popen[str]], Proxy]]:
    """Runs two ranks. Messages between rank 1 and the store, which rank 0 serves, are `seconds` late each way."""
    model = workshop.model("gpt")
    command = run_command(workshop.step(CONFIG), model.archive, model.inputs, steps, *extra)
    stores = [serve(), serve()]
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(started([(command, variables(CONFIG, 0, stores[0].port))]))
        host, address, port = stores[0].get(ADDRESS).decode().split("\n")[0].split()
        assert address == "127.0.0.1"
        proxy = stack.enter_context(delayed(int(port), seconds))
        text = f"{host} {address} {proxy.port}"
        stores[1].set(ADDRESS, f"{text}\n{proof(text)}")
        second = stack.enter_context(started([(command, variables(CONFIG, 1, stores[1].port))]))
        yield [*first, *second], proxy


def said(processes: list[subprocess.Popen[str]], timeout: float = 120) -> list[str]:
    """The last error line of each."""
    errors = [process.communicate(timeout=timeout)[1] for process in processes]
    return [next((line for line in reversed(text.splitlines()) if "error:" in line), text) for text in errors]


@pytest.mark.parametrize("seconds", [pytest.param(0.1, marks=LONG), 0.25])
def test_a_slow_store(workshop: Workshop, tmp_path: Path, seconds: float) -> None:
    log = tmp_path / "log.jsonl"
    with job(workshop, seconds, 3, f"--json={log}") as (ranks, _):
        for rank in ranks:
            _, errors = rank.communicate(timeout=150)
            assert rank.returncode == 0, errors
    assert [step["loss"] for step in read_log(log)] == workshop.run(CONFIG, 3).losses


@pytest.mark.skipif(bool(NO_WIRE), reason=str(NO_WIRE))
@pytest.mark.parametrize("milliseconds, jitter", [pytest.param(100, 0, marks=LONG), (25, 25), (250, 0)])
def test_a_slow_link(workshop: Workshop, tmp_path: Path, milliseconds: int, jitter: int) -> None:
    model, log = workshop.model("gpt"), tmp_path / "log.jsonl"
    command = run_command(workshop.step(CONFIG), model.archive, model.inputs, 1, f"--json={log}")
    with wired(2) as (made, wire):
        wire.fault = Fault(delay=milliseconds / 1000, jitter=jitter / 1000)
        commands = [
            (made[rank].command(*map(str, command)), rank_environment(CONFIG, rank, 29500, made[0].address))
            for rank in range(2)
        ]
        with started(commands) as ranks:
            for rank in ranks:
                _, errors = rank.communicate(timeout=150)
                assert rank.returncode == 0, errors
    assert [step["loss"] for step in read_log(log)] == workshop.run(CONFIG, 3).losses[:1]


def test_an_outage_of_the_store_that_the_time_out_allows(workshop: Workshop) -> None:
    with job(workshop, 0, MANY_STEPS, "--timeout=1000") as (ranks, proxy):
        wait_for_step(ranks[0])
        proxy.is_silent = True
        time.sleep(8)
        proxy.is_silent = False
        time.sleep(4)
        assert [rank.poll() for rank in ranks] == [None, None]


def test_every_rank_tells_of_an_outage(workshop: Workshop) -> None:
    with job(workshop, 0, MANY_STEPS, "--timeout=30") as (ranks, proxy):
        wait_for_step(ranks[0])
        proxy.is_silent = True
        lines = said(ranks)
        assert [rank.returncode for rank in ranks] == [1, 1]
    assert "rank 1 (node 1, local 0) stopped: no heartbeat for" in lines[0]
    assert "rank 0 (node 0, local 0), which holds the store at" in lines[1] and "no answer for" in lines[1]


def test_a_rank_0_that_was_stopped_blames_nobody(workshop: Workshop) -> None:
    with job(workshop, 0, MANY_STEPS, "--timeout=30") as (ranks, _):
        wait_for_step(ranks[0])
        ranks[0].send_signal(signal.SIGSTOP)
        (line,) = said(ranks[1:])
        assert "rank 0 (node 0, local 0), which holds the store at" in line
        ranks[0].send_signal(signal.SIGCONT)
        (line,) = said(ranks[:1])
        assert "rank 0 (node 0, local 0), which holds the store at" in line and "rank 1 " not in line, line


def test_a_rank_0_that_is_stopped_shortly_goes_on(workshop: Workshop) -> None:
    with job(workshop, 0, MANY_STEPS, "--timeout=300") as (ranks, _):
        wait_for_step(ranks[0])
        ranks[0].send_signal(signal.SIGSTOP)
        time.sleep(10)
        ranks[0].send_signal(signal.SIGCONT)
        time.sleep(4)
        assert [rank.poll() for rank in ranks] == [None, None]


@pytest.mark.skipif(bool(why_impossible()), reason=str(why_impossible()))
@pytest.mark.xdist_group("hosts")
def test_every_host_tells_of_a_link_that_is_cut(workshop: Workshop) -> None:
    config, model = Config("gpt"), workshop.model("gpt")
    command = run_command(workshop.step(config), model.archive, model.inputs, MANY_STEPS, "--timeout=30")
    with hosts(2) as made:
        commands = [
            (made[rank // 2].command(*map(str, command)), rank_environment(config, rank, 29500, made[0].address))
            for rank in range(4)
        ]
        with started(commands) as ranks:
            wait_for_step(ranks[0])
            cut(made[1], True)
            lines = said(ranks)
            assert [rank.returncode for rank in ranks] == [1] * 4
    assert all("rank 2 (node 1, local 0) stopped: no heartbeat" in line for line in lines[:2]), lines
    assert all("rank 0 (node 0, local 0), which holds the store" in line for line in lines[2:]), lines


def test_every_rank_tells_of_the_loss_of_node_0(workshop: Workshop) -> None:
    config, model = Config("gpt"), workshop.model("gpt")
    command = run_command(workshop.step(config), model.archive, model.inputs, MANY_STEPS)
    port = free_port()
    with started([(command, rank_environment(config, rank, port)) for rank in range(4)]) as ranks:
        wait_for_step(ranks[0])
        for rank in ranks[:2]:
            rank.kill()
        lines = said(ranks[2:])
    assert all("rank 0 (node 0, local 0), which holds the store at" in line for line in lines), lines


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_store_that_does_not_answer(workshop: Workshop, is_stopped: bool) -> None:
    """Its process is stopped, or it is a service that says nothing."""
    model = workshop.model("gpt")
    command = run_command(workshop.step(CONFIG), model.archive, model.inputs, 1, "--timeout=3")
    program = "from torch.distributed import TCPStore as T; "
    program += "s = T('127.0.0.1', 0, is_master=True, wait_for_workers=False)"
    with contextlib.ExitStack() as stack:
        if is_stopped:
            server = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", f"{program}; print(s.port, flush=True); input()"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(server.kill)
            assert server.stdout is not None
            port = int(server.stdout.readline())
            server.send_signal(signal.SIGSTOP)
        else:
            service = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            port = service.getsockname()[1]
        (rank,) = stack.enter_context(started([(command, variables(CONFIG, 1, port))]))
        (line,) = said([rank], timeout=30)
        assert rank.returncode == 1
        assert f"127.0.0.1:{port}" in line, line
