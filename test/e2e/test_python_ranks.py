# SPDX-License-Identifier: Apache-2.0
"""A program that run_ranks runs sees and leaves what it does in an interpreter of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from python_ranks import run_ranks

VARIABLES = {"OF_THE_RANK": "yes"}
# Prints what it sees, then where it got, and ends as its argument says.
PROGRAM = """
import atexit, json, os, random, sys, threading, time
import numpy, torch

seen = [__name__, __file__, sys.argv, sys.path[0], os.getcwd(), sys.stdin.read(), os.environ["OF_THE_RANK"], "PATH" in os.environ]
seen += [torch.get_num_threads(), torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled()]
print(json.dumps([seen, [torch.initial_seed(), random.random(), numpy.random.rand()]]), flush=True)
atexit.register(lambda: print("at exit:", getattr(sys, "last_value", None)))
torch.ones(3, requires_grad=True).sum().backward()
os.write(1, b"to the descriptor\\n")
threading.Thread(target=lambda: (time.sleep(0.1), print("from a thread"))).start()
if sys.argv[1] == "raise":
    raise ValueError("of the rank")
if sys.argv[1] == "wait":
    time.sleep(600)
sys.exit({"text": "a text", "number": 3}.get(sys.argv[1]))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_as_in_an_interpreter_of_its_own(script: Path) -> None:
    ranks = run_ranks(script, ["raise"], [VARIABLES] * 2, exit_code=1)
    command = [sys.executable, script, "raise"]
    own = subprocess.run(command, env=VARIABLES, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert own.returncode == 1
    seen, *rest = own.stdout.splitlines()
    seeds = [json.loads(seen)[1]]
    for rank in ranks:
        first, *others = rank.out.splitlines()
        assert json.loads(first)[0] == json.loads(seen)[0]
        assert others == rest == ["to the descriptor", "from a thread", "at exit: of the rank"]
        assert rank.error.splitlines()[-1] == own.stderr.splitlines()[-1] == "ValueError: of the rank"
        seeds.append(json.loads(first)[1])
    assert all(len(set(kind)) == 3 for kind in zip(*seeds)), seeds


@pytest.mark.parametrize(("end", "exit_code", "error"), [("nothing", 0, ""), ("number", 3, ""), ("text", 1, "a text\n")])
def test_exit_codes(script: Path, end: str, exit_code: int, error: str) -> None:
    (rank,) = run_ranks(script, [end], [VARIABLES], exit_code=exit_code)
    assert rank.out.splitlines()[1:] == ["to the descriptor", "from a thread", "at exit: None"]
    assert rank.error == error


def test_ranks_that_do_not_end(script: Path) -> None:
    """They are killed, and what they have printed is in the error."""
    with pytest.raises(AssertionError, match=r"(?s)within 3 s, got \[None, None\].*to the descriptor.*to the descriptor"):
        run_ranks(script, ["wait"], [VARIABLES] * 2, timeout=3)
