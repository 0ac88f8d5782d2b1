# SPDX-License-Identifier: Apache-2.0
"""The ranks of a job, as its launcher started them, and the store over which they exchange what one of them has made.
"""

import atexit
import contextlib
import ctypes
import datetime
import errno
import hashlib
import hmac
import os
import socket
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.distributed import DistError, TCPStore

from fcdp.errors import StepError
from fcdp.loop.library import call

# Exporting and compiling a large model takes minutes.
_TIMEOUT = datetime.timedelta(hours=1)

# By host, port and process. They stay until the process ends: a rank that compiles again may have connected to the
# server of the call before, which must not go then.
_stores: dict[tuple[str, int, int], TCPStore] = {}
# In seconds. Many ranks ask one store.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
_PROOF_BYTES = hashlib.sha256().digest_size


@dataclass(frozen=True)
class Launch:
    """This process's place in its job. `rank` counts by node."""

    nodes: int
    ranks_per_node: int
    node: int
    local: int
    rank: int
    host: str
    port: int
    serves_store: bool
    restarts: int
    secret: str

    @property
    def num_ranks(self) -> int:
        return self.nodes * self.ranks_per_node


def find_launch() -> Launch:
    """Reads the variables of torchrun, mpirun or srun; without them the process is the only rank."""
    return Launch(*call(torch.ops.fcdp.launch))


class Job:
    """The store of a job. `number` tells apart what a process compiles one after the other."""

    def __init__(self, launch: Launch, number: int):
        self.launch = launch
        self.number = number
        self._prefix = f"fcdp/compile/{launch.restarts}/{number}/"
        self._ended = f"fcdp/ended/{launch.restarts}/"
        self._store = _store_of(launch, self._ended + str(launch.rank)) if launch.num_ranks > 1 else None
        self._sent: list[str] = []

    @property
    def serves_store(self) -> bool:
        """Whether a session has to serve the store itself."""
        return self._store is None

    def first_makes(self, key: str, make: Callable[[], bytes]) -> bytes:
        """Collective. Returns what `make` returns on rank 0. An error there is raised on all ranks."""
        return self._one_makes(key, 0, make)

    def first_of_node_makes(self, key: str, make: Callable[[], bytes]) -> bytes:
        """Collective. Returns what `make` returns on the first rank of this node. An error is raised on its ranks."""
        return self._one_makes(f"{key}/{self.launch.node}", self.launch.rank - self.launch.local, make)

    def gather(self, key: str, value: bytes) -> list[bytes]:
        """Collective. Returns the values of all ranks on rank 0, in their order, and none on other ranks."""
        if self._store is None:
            return [value]
        ranks = range(1, self.launch.num_ranks)
        if self.launch.rank == 0:
            return [value, *(self._receive(f"{self._prefix}{key}/{rank}", rank) for rank in ranks)]
        self._send(f"{self._prefix}{key}/{self.launch.rank}", b"+" + value)
        return []

    def _one_makes(self, key: str, rank: int, make: Callable[[], bytes]) -> bytes:
        if self._store is None:
            return make()
        key = self._prefix + key
        if self.launch.rank != rank:
            return self._receive(key, rank)
        try:
            made = make()
        except BaseException as error:
            self._send(key, b"-" + str(error).encode())
            raise
        self._send(key, b"+" + made)
        return made

    def forget(self) -> None:
        """Frees what this rank has made for the others. To be called when they have received it."""
        for key in self._sent:
            self._store.delete_key(key)
        self._sent.clear()

    def _send(self, key: str, value: bytes) -> None:
        self._store.set(key, self._proof_of(key, value) + value)
        self._sent.append(key)

    def _proof_of(self, key: str, value: bytes) -> bytes:
        """The store does what anybody says, and a step that is received is loaded like a program."""
        return hmac.digest(self.launch.secret.encode(), key.encode() + b"\0" + value, hashlib.sha256)

    def _receive(self, key: str, rank: int) -> bytes:
        try:
            self._wait_for(key, rank)
            received = self._store.get(key)
        except DistError as error:
            raise StepError("peer failed", f"rank {rank} did not make {key}: {error}") from error
        proof, value = received[:_PROOF_BYTES], received[_PROOF_BYTES:]
        if not hmac.compare_digest(proof, self._proof_of(key, value)):
            raise StepError(
                "peer failed",
                f"expected {key} from rank {rank}, got it from a process without the job's secret (FCDP_JOB_KEY)",
            )
        if value[:1] == b"-":
            raise StepError("peer failed", f"rank {rank}: {value[1:].decode()}")
        return value[1:]

    def _wait_for(self, key: str, rank: int) -> None:
        """Looks for the key, and for the end of the rank: PyTorch writes a warning for a wait that times out."""
        end, pause = time.monotonic() + _TIMEOUT.total_seconds(), _FIRST_PAUSE
        while not self._store.check([key]):
            if self._store.check([f"{self._ended}{rank}"]) and not self._store.check([key]):
                raise StepError("peer failed", f"rank {rank} ended before it made {key}")
            if time.monotonic() > end:
                raise StepError("peer failed", f"rank {rank} did not make {key} within {_TIMEOUT}")
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE)


def _store_of(launch: Launch, ended: str) -> TCPStore:
    """Returns the store of this process's job, in which `ended` is set when the process exits."""
    address = launch.host, launch.port, os.getpid()
    if address not in _stores:
        store = _stores[address] = _open_store(launch)
        _leave_to_parent(store)
        atexit.register(_say_the_end, store, ended, os.getpid())
    return _stores[address]


def _say_the_end(store: TCPStore, ended: str, process: int) -> None:
    if os.getpid() == process:  # and not one that was forked from it
        with contextlib.suppress(DistError):  # The process that served the store may have ended first.
            store.set(ended, "")


def _leave_to_parent(store: TCPStore) -> None:
    """Has processes that are forked from this one never destroy the store: they would wait for its thread, which they
    lack.
    """
    reference = weakref.ref(store)

    def keep() -> None:
        kept = reference()
        if kept is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))

    os.register_at_fork(after_in_child=keep)


def _open_store(launch: Launch) -> TCPStore:
    """Serves the store on rank 0 unless the launcher does. A process group of the program's may share it."""
    listening = None
    try:
        if launch.serves_store and launch.nodes == 1:
            listening = _listen(launch)
        return TCPStore(
            launch.host,
            launch.port,
            is_master=launch.serves_store,
            timeout=_TIMEOUT,
            wait_for_workers=False,
            multi_tenant=True,
            master_listen_fd=listening,
        )
    except (DistError, OSError, RuntimeError) as error:
        raise StepError(
            "rendezvous failed", f"the job's store at {launch.host}:{launch.port} cannot be used: {error}"
        ) from error


def _listen(launch: Launch) -> int | None:
    """Returns a socket for the store, which itself would listen on all addresses, or None if the port is taken.

    By the store of a process group of the program's, that is, which TCPStore then shares. It refuses any other.
    """
    try:
        return socket.create_server((launch.host, launch.port), backlog=128).detach()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return None
