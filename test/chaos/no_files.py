# SPDX-License-Identifier: Apache-2.0
"""Tries what is no file in the place of an input. See tries.py for what a try is."""

import os
import random
import re
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from tries import STEPS, Workshop, command_in

from harness import environment

# Refusing takes no longer than libtorch takes to load, on a busy machine.
END_SECONDS = 60


def make_socket(path: Path) -> None:
    # The name of a socket is short, so the name leaves out the folder.
    here = os.getcwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(here)


MADE: dict[str, Callable[[Path], None]] = {
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a link that leads nowhere": lambda path: path.symlink_to("nowhere"),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a socket": make_socket,
}

KINDS = ("an input is no file",)


def attempt(workshop: Workshop, folder: Path, kind: str, seed: int, _: list[float]) -> str:
    """Starts a job with one such input; returns what is wrong, or an empty text."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    draw = random.Random(seed)
    command = command_in(workshop, folder, STEPS)
    given = draw.choice([*sorted(folder.glob("*.npy")), folder / "weights.pt2", folder / "step.so"])
    given.unlink()
    MADE[draw.choice([*MADE])](given)
    before = content(folder)
    try:
        done = subprocess.run(
            command,
            env=environment(),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=END_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"still ran after {END_SECONDS} seconds"
    if done.returncode not in (1, 2) or len(re.findall("error: ", done.stderr)) != 1 or given.name not in done.stderr:
        return f"expected one error that names {given.name}, got {done.returncode}: {done.stderr}"
    changed = content(folder).items() ^ before.items()
    return f"changed {sorted(path.name for path, _ in changed)}" if changed else ""


def content(folder: Path) -> dict[Path, bytes | None]:
    """Returns the bytes of each regular file below a folder, and None for whatever else is there."""
    return {path: path.read_bytes() if is_regular(path) else None for path in folder.rglob("*")}


def is_regular(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
