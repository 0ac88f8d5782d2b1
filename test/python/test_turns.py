# SPDX-License-Identifier: Apache-2.0
"""Threads export one after the other, as PyTorch's tracing changes the state of the process."""

import os
import threading
from pathlib import Path

import torch
from torch import nn

import fcdp
from fcdp.turns import one_at_a_time


def test_exports_of_several_threads(tmp_path: Path) -> None:
    errors: list[BaseException] = []
    inputs = torch.ones(2, 4), torch.zeros(2, 1)

    def export(number: int) -> None:
        try:
            fcdp.export(nn.Linear(4, 1), inputs, tmp_path / f"{number}.pt2", nn.functional.mse_loss)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=export, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len(list(tmp_path.iterdir())) == 3, errors


def test_a_forked_process_waits_for_no_thread_of_its_parent() -> None:
    taken, go = threading.Event(), threading.Event()

    def take() -> None:
        with one_at_a_time():
            taken.set()
            go.wait()

    thread = threading.Thread(target=take)
    thread.start()
    taken.wait()
    child = os.fork()
    if child == 0:
        with one_at_a_time():
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    go.set()
    thread.join()
