# SPDX-License-Identifier: Apache-2.0
"""Tries what happens in and around the loop of a Python program (fcdp.compile). See tries.py for what a try is.

Two ranks train. One of them does at one step what the seed has chosen, or the cache of compiled steps is damaged
before.
"""

import json
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from no_files import MADE, is_regular
from tries import Config, Workshop

from harness import rank_environments, started

STEPS = 30
CONFIG = Config("", 1, 2)
# Half of the limit of a collective in the script, which the other rank must not wait for.
END_SECONDS = 30
# Begins the line in which a rank says when it did its deed, in seconds of the machine's monotonic clock.
DEED = "deed at "

SCRIPT = """
import json, os, signal, sys, time
import torch
from torch import nn
import fcdp

cache, deed, mark = sys.argv[1:4]
rank, at, steps = map(int, sys.argv[4:])
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
example = (torch.zeros(4, 8), torch.zeros(4, 1))
settings = {"optimizer": "sgd,lr=0.1", "cache": cache, "threads": 1, "timeout": 60, "check": False}
step = fcdp.compile(model, example, loss_fn=nn.functional.mse_loss, **settings)
print("begun", flush=True)
children = []

class Enough(Exception):
    pass

def fork(work, count=1):
    for _ in range(count):
        child = os.fork()
        if not child:
            signal.alarm(60)
            work()
            sys.exit(5)
        children.append(child)

def refused(call):
    try:
        call()
    except fcdp.StepError as error:
        assert "forked" in str(error), error
    else:
        os._exit(6)

def end():
    raise Enough

def fail():
    raise RuntimeError("an error of the program's own")

DEEDS = {
    "nothing": lambda: None,
    "a child exits": lambda: fork(lambda: None),
    "a child leaves": lambda: fork(lambda: os._exit(5)),
    "a child closes": lambda: fork(lambda: refused(step.close)),
    "a child steps": lambda: fork(lambda: refused(lambda: step(*example))),
    "children step": lambda: fork(lambda: refused(lambda: step(*example)), 3),
    "ends the loop": end,
    "closes and leaves": lambda: (step.close(), sys.exit()),
    "exits": sys.exit,
    "raises": fail,
}
data = torch.Generator().manual_seed(step.rank)
try:
    for number in range(steps):
        if step.rank == rank and number == at:
            print(f"{mark}{time.monotonic()}", file=sys.stderr, flush=True)
            DEEDS[deed]()
        loss = step(torch.randn(4, 8, generator=data), torch.randn(4, 1, generator=data))
        print(json.dumps(loss.item()), flush=True)
except Enough:
    pass
step.close()
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
assert codes == [5] * len(children), codes
"""


@dataclass(frozen=True)
class Loop:
    """The orders that the ranks of a program got, and how the ranks ended."""

    deed: str
    rank: int
    at: int
    codes: list[int]
    losses: list[float]
    errors: list[str]
    # When the last rank had ended, in seconds of the machine's monotonic clock.
    ended: float

    @property
    def other(self) -> int:
        return 1 - self.rank

    @property
    def seconds(self) -> float:
        """The time from the deed until both ranks had ended."""
        said = re.search(rf"^{DEED}(\S+)$", self.errors[self.rank], re.MULTILINE)
        assert said, self.errors
        return self.ended - float(said[1])


def run(cache: Path, folder: Path, deed: str = "nothing", rank: int = 0, at: int = 0) -> Loop:
    """Raises subprocess.TimeoutExpired if a rank is still there long after the others have begun."""
    script = folder / "loop.py"
    script.write_text(SCRIPT)
    command: list[str | Path] = [sys.executable, script, cache, deed, DEED, str(rank), str(at), str(STEPS)]
    with started([(command, variables) for variables in rank_environments(CONFIG)]) as ranks:
        printed = [process.communicate(timeout=120 + END_SECONDS) for process in ranks]
        ended = time.monotonic()
    losses = [json.loads(line) for line in printed[0][0].splitlines() if line != "begun"]
    codes = [process.returncode for process in ranks]
    return Loop(deed, rank, at, codes, losses, [errors for _, errors in printed], ended)


def undisturbed(workshop: Workshop) -> tuple[Path, list[float]]:
    """Returns the cache with the step, and the losses of a loop to which nothing happens."""

    def make() -> tuple[Path, list[float]]:
        folder = workshop.folder / "loops"
        folder.mkdir()
        loop = run(folder / "cache", folder)
        assert loop.codes == [0, 0], loop
        return folder / "cache", loop.losses

    return workshop._once("a loop", make)


def goes_on(loop: Loop, losses: list[float]) -> str:
    if any(loop.codes):
        return f"ended with {loop.codes}: {loop.errors}"
    return "" if loop.losses == losses else f"computed something else in {len(loop.losses)} steps"


def ends(loop: Loop, losses: list[float], names: str) -> str:
    """The other rank ends at once, with an error that matches `names`."""
    said = loop.errors[loop.other]
    if loop.codes[loop.other] != 1 or not re.search(names, said):
        return f"expected an error of rank {loop.other} that matches {names!r}, got {loop.codes}: {said}"
    if not {0, 1}.issuperset(loop.codes):
        return f"ended with {loop.codes}: {loop.errors}"
    if loop.seconds > END_SECONDS:
        return f"ended {loop.seconds:.0f} seconds after the deed"
    return "" if loop.losses == losses[: loop.at] else f"computed something else in {len(loop.losses)} steps"


def ends_early(loop: Loop, losses: list[float]) -> str:
    count = f"{loop.at} step" + "s" * (loop.at != 1)
    return ends(loop, losses, rf"rank {loop.rank} \(node 0, local {loop.rank}\) has ended its loop after {count}\b")


def raises(loop: Loop, losses: list[float]) -> str:
    return ends(loop, losses, rf"rank {loop.rank}\b.*RuntimeError: an error of the program's own")


# By kind: what a rank may do, and the judgement.
LOOPS: dict[str, tuple[tuple[str, ...], Callable[[Loop, list[float]], str]]] = {
    "a program forks": (
        ("a child exits", "a child leaves", "a child closes", "a child steps", "children step"),
        goes_on,
    ),
    "a loop ends early": (("ends the loop", "closes and leaves", "exits"), ends_early),
    "a loop raises": (("raises",), raises),
}


def damage(cache: Path, step: Path, draw: random.Random) -> bool:
    """Cuts, changes or replaces a step of the cache, or the folder. Returns whether a new step can take the place."""
    content = step.read_bytes()
    way = draw.choice(["cut", "changed", "empty", "no folder", *MADE])
    if way == "no folder":
        shutil.rmtree(cache)
        cache.write_text("")
        return False
    step.unlink()
    if way in MADE:
        MADE[way](step)
    elif way == "changed":
        at = draw.randrange(len(content))
        step.write_bytes(content[:at] + bytes([content[at] ^ draw.randrange(1, 256)]) + content[at + 1 :])
    else:
        step.write_bytes(content[: draw.randrange(len(content)) if way == "cut" else 0])
    return not step.is_dir()


def with_damaged_cache(cache: Path, folder: Path, draw: random.Random, losses: list[float]) -> str:
    own = folder / "cache"
    shutil.copytree(cache, own)
    step = draw.choice(sorted(own.glob("*.so")))
    original = step.read_bytes()
    is_mended = damage(own, step, draw)
    loop = run(own, folder)
    if is_mended and not (is_regular(step) and step.read_bytes() == original):
        return "the damaged step was not made again"
    if not is_mended and "the cache of compiled steps cannot be used" not in "".join(loop.errors):
        return f"expected a warning of the cache, got {loop.errors}"
    return goes_on(loop, losses)


KINDS = (*LOOPS, "a cached step is damaged")


def attempt(workshop: Workshop, folder: Path, kind: str, seed: int, _: list[float]) -> str:
    """Does one thing to one loop; returns what is wrong, or an empty text."""
    cache, losses = undisturbed(workshop)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    draw = random.Random(seed)
    try:
        if kind not in LOOPS:
            return with_damaged_cache(cache, folder, draw, losses)
        deeds, judge = LOOPS[kind]
        loop = run(cache, folder, draw.choice(deeds), draw.randrange(2), draw.randrange(1, STEPS))
    except subprocess.TimeoutExpired:
        return "still ran when all had ended long ago"
    return judge(loop, losses)
