# SPDX-License-Identifier: Apache-2.0
"""Steps in programs that fork, have threads, or end on one rank before the others; and under torchrun on one rank."""

import sys
from pathlib import Path

import pytest

from harness import Config, environment, free_port, rank_environments, started
from python_ranks import run_ranks

BEGIN = """
import gc, os, signal, sys, threading, time
import torch
from torch import nn
import fcdp

def compiled():
    torch.manual_seed(0)
    model, example = nn.Linear(4, 1), (torch.ones(2, 4), torch.zeros(2, 1))
    return fcdp.compile(model, example, loss_fn=nn.functional.mse_loss, cache=sys.argv[1], threads=1, timeout=60)

def refused(call):
    try:
        call()
    except fcdp.StepError as error:
        return str(error)
    raise AssertionError("expected a StepError")

x, y = torch.ones(2, 4), torch.zeros(2, 1)
step = compiled()
"""

# Children with exit codes of their own: what sys.exit() runs must not hang, nor disturb the ranks.
FORKS = (
    BEGIN
    + """
def in_child(work):
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        work()
        sys.exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def uses():
    expected = f"this process was forked from process {os.getppid()}, which has opened the session and alone can use it"
    for call in (lambda: step(x, y), step.state_dict, lambda: step.save_weights("nowhere"), step.finish_save, step.close):
        message = refused(call)
        assert message == expected, message
    assert refused(lambda: step(x, y)) == "the step is closed"

def collects():
    global step
    del step
    gc.collect()

def stays_open():
    step.fail("a child fails")

def raises_in_block():
    try:
        with step:
            raise ValueError
    except ValueError:
        pass

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return x[0], y[0]

before = step(x, y)
for work in (lambda: None, uses, collects, stays_open, raises_in_block):
    code = in_child(work)
    assert code == 7, (work, code)
    assert step(x, y) < before
loader = torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=1, multiprocessing_context="fork")
for rows, labels in loader:
    step(rows, labels)
assert step.num_steps == 1 + 5 + 4
if step.rank == 0:
    # A child that outlives its parent.
    if os.fork() == 0:
        os.close(1), os.close(2)
        time.sleep(1)
        os._exit(0)
step.close()
"""
)


@pytest.mark.parametrize("config", [Config("", 1, 1), Config("", 1, 2)], ids=["one rank", "two ranks"])
def test_forked_children(tmp_path: Path, config: Config) -> None:
    script = tmp_path / "forks.py"
    script.write_text(FORKS)
    run_ranks(script, [tmp_path / "cache"], [environment()] if config.world == 1 else rank_environments(config))


THREADS = (
    BEGIN
    + """
busy = "another thread is in a call of this session, which takes one call at a time"
messages, made = [], []

def steps():
    for _ in range(200):
        try:
            made.append(step(x, y))
        except fcdp.StepError as error:
            messages.append((error.code, str(error)))

threads = [threading.Thread(target=steps) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert step.num_steps == len(made) > 0
assert set(messages) <= {("busy", busy)}, set(messages)

# Closing is refused while the other thread is in a step, and then ends its loop.
ended = []

def steps_until_closed():
    try:
        while True:
            step(x, y)
    except fcdp.StepError as error:
        ended.append(str(error))

thread = threading.Thread(target=steps_until_closed)
thread.start()
while True:
    try:
        step.close()
        break
    except fcdp.StepError as error:
        assert (error.code, str(error)) == ("busy", busy), error
thread.join()
# Its last step may meet the call that closes.
assert ended[0] in (busy, "the step is closed", "the session is closed"), ended

# A program may end while a thread of it steps.
step = compiled()
def steps_for_ever():
    try:
        while True:
            step(x, y)
    except fcdp.StepError:
        pass
threading.Thread(target=steps_for_ever, daemon=True).start()
time.sleep(0.2)
"""
)


def test_threads(tmp_path: Path) -> None:
    script = tmp_path / "threads.py"
    script.write_text(THREADS)
    run_ranks(script, [tmp_path / "cache"], [environment()])


ENDS = """
begin, message = time.monotonic(), ""
try:
    for number in range(4):
        if step.rank == 1 and number == 2:
            END
        step(x, y)
    assert step.rank == 1, step.rank
    step.close()
except fcdp.StepError as error:
    message = str(error)
assert time.monotonic() - begin < 30  # half of the limit of collectives
print(message)
"""


@pytest.mark.parametrize("end", ["break", "sys.exit()", "step.close(); raise SystemExit"], ids=["loop", "exit", "close"])
def test_a_loop_that_ends_early(tmp_path: Path, end: str) -> None:
    script = tmp_path / "ends.py"
    script.write_text(BEGIN + ENDS.replace("END", end))
    ranks = run_ranks(script, [tmp_path / "cache"], rank_environments(Config("", 1, 2)))
    expected = (
        "rank 1 (node 0, local 1) has ended its loop after 2 steps, but rank 0 (node 0, local 0) goes on after 2 steps"
    )
    assert ranks[0].out.startswith(expected), ranks
    assert expected in ranks[1].out + ranks[1].error, ranks


ENDS_IN_EVALUATION = (
    BEGIN.replace("timeout=60)", "timeout=60, eval_inputs=example)")
    + """
step(x, y)
if step.rank == 1:
    sys.exit()
print(refused(lambda: step.evaluate([(x, y)])))
"""
)


def test_a_rank_that_ends_while_another_evaluates(tmp_path: Path) -> None:
    """Their messages then have different lengths, for which Gloo would end a process."""
    script = tmp_path / "evaluates.py"
    script.write_text(ENDS_IN_EVALUATION)
    ranks = run_ranks(script, [tmp_path / "cache"], rank_environments(Config("", 1, 2)))
    assert ranks[0].out.startswith("rank 1 (node 0, local 1) has ended its loop after 1 step, but rank 0"), ranks


ENDS_BETWEEN = (
    BEGIN
    + """
step.close()
if step.rank == 0:
    sys.exit()
begin = time.monotonic()
message = refused(compiled)
assert "rank 0" in message and time.monotonic() - begin < 30, message
"""
)


@pytest.mark.parametrize("serves", [True, False], ids=["rank", "torchrun"])
def test_a_rank_that_ends_before_it_compiles_again(tmp_path: Path, serves: bool) -> None:
    """By whomever the store of the job is served."""
    script = tmp_path / "between.py"
    script.write_text(ENDS_BETWEEN)
    if serves:
        run_ranks(script, [tmp_path / "cache"], rank_environments(Config("", 1, 2)))
        return
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", script, tmp_path / "cache"]
    with started([(run, environment())]) as (job,):
        output, errors = job.communicate(timeout=180)
        assert job.returncode == 0, output + errors


TORCHRUN = (
    BEGIN
    + """
losses = [step(x, y).item() for _ in range(2)]
step.close()
if len(sys.argv) > 2:
    torch.distributed.init_process_group("gloo")
    torch.distributed.barrier()
step = compiled()
assert [step(x, y).item() for _ in range(2)] == losses
step.close()
"""
)


def test_torchrun_with_one_rank(tmp_path: Path) -> None:
    """Its agent listens on the port that a process group of the program uses."""
    script = tmp_path / "one.py"
    script.write_text(TORCHRUN)
    run = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=1"]
    hows = (["--standalone"], [f"--master-port={free_port()}"])
    with started([([*run, *how, script, tmp_path / "cache", "group"], environment()) for how in hows]) as jobs:
        for job in jobs:
            output, errors = job.communicate(timeout=180)
            assert job.returncode == 0, output + errors


FEW_FILES = (
    BEGIN.replace("step = compiled()\n", "")
    + """
import resource
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (63, most))
message = refused(compiled)
assert message == "expected a limit of at least 64 open files (ulimit -n), got 63", message
"""
)


def test_few_open_files(tmp_path: Path) -> None:
    """Below some limit, libtorch ends the process."""
    script = tmp_path / "files.py"
    script.write_text(FEW_FILES)
    run_ranks(script, [tmp_path / "cache"], [environment()])
