# SPDX-License-Identifier: Apache-2.0
"""Tries what goes wrong around a running job.

A try is a kind of accident, a seed that chooses its details, and a judgement. Each try runs a job of two nodes with two
ranks in a folder of its own, does one thing to it, and returns what is wrong with how the job went on: an empty text if
nothing is. A job that may end or go on must compute what an undisturbed one computes if it goes on. If it ends, it must
end within seconds, with one error that names what has happened, and leave nothing but its log.
"""

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from harness import BIN, Config, Workshop, environment, read_log  # noqa: E402

CONFIG = Config("tiny_params")
STEPS = 200
# The steps of a job that still runs when another one has waited for its files.
MANY_STEPS = 1_000_000
# A job that ends does so within 40 seconds on a machine that is idle. This is only when to give up waiting.
END_SECONDS = 300
LOG = "log.jsonl"
OUT = "results/out.safetensors"
# Files that have no place in the folder of a try.
ELSEWHERE = "elsewhere"
DISK_BYTES = 4 << 20


@dataclass
class Job:
    """A job that runs, and what the try may do things to."""

    folder: Path
    process: subprocess.Popen[str]
    random: random.Random
    steps_to_do: int

    def ranks(self) -> list[int]:
        """Process ids of the ranks."""
        id = self.process.pid
        return [int(child) for child in Path(f"/proc/{id}/task/{id}/children").read_text().split()]

    def rank(self) -> int:
        return self.random.choice(self.ranks())

    def steps(self) -> int:
        log = self.folder / LOG
        return len(log.read_text().splitlines()) if log.exists() else 0

    def wait_for_step(self, step: int) -> None:
        deadline = time.monotonic() + END_SECONDS
        while self.steps() < step and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)

    def port(self) -> int:
        """A port on which the launcher or a rank listens."""
        listening = set()
        inodes = set()
        for pid in [self.process.pid, *self.ranks()]:
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                found = re.match(r"socket:\[(\d+)\]", os.readlink(entry))
                if found:
                    inodes.add(found[1])
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    listening.add(int(fields[1].rpartition(":")[2], 16))
        return self.random.choice(sorted(listening))


def why_no_disk() -> str | None:
    """Returns the reason why a try can have no disk of its own here, or None."""
    with tempfile.TemporaryDirectory() as name, suppress(OSError, subprocess.CalledProcessError):
        with small_disk(Path(name)):
            return None
    return "this user may not mount"


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(folder)]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def command_in(workshop: Workshop, folder: Path, steps: int) -> list[str]:
    """Copies all that a job reads into its folder; returns its command."""
    model = workshop.model(CONFIG.model)
    (folder / OUT).parent.mkdir()
    shutil.copy(workshop.step(CONFIG), folder / "step.so")
    shutil.copy(model.archive, folder / "weights.pt2")
    command = [BIN / "fcdp-run", folder / "step.so", f"--weights={folder / 'weights.pt2'}", f"--steps={steps}"]
    for name, source in model.inputs.items():
        shutil.copy(source, folder / f"{name}.npy")
        command.append(f"--input={name}={folder / name}.npy")
    command += [f"--json={folder / LOG}", f"--params-out={folder / OUT}", "--threads=1", "--timeout=10"]
    return [str(part) for part in command]


def start(workshop: Workshop, folder: Path, seed: int, steps: int) -> Job:
    process = subprocess.Popen(
        command_in(workshop, folder, steps),
        env=environment({"TMPDIR": str(folder.parent / ELSEWHERE)}),
        cwd=folder,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    return Job(folder, process, random.Random(seed), steps)


# Accidents of a job. Each returns what the job may do afterwards, and what its error must name if it ends.


@dataclass(frozen=True)
class Expected:
    may_end: bool
    may_go_on: bool
    names: str = ""
    # All steps are done although the job ends with an error.
    is_whole: bool = False


GOES_ON, ENDS = Expected(False, True), Expected(True, False)


def kill(job: Job) -> Expected:
    os.kill(job.rank(), signal.SIGKILL)
    return Expected(True, False, r"rank \d")


def stop(job: Job) -> Expected:
    """Less than the limit of a heartbeat."""
    rank = job.rank()
    os.kill(rank, signal.SIGSTOP)
    time.sleep(job.random.uniform(0.1, 1.5))
    os.kill(rank, signal.SIGCONT)
    return GOES_ON


def cut_file(job: Job) -> Expected:
    """A file that the job has read, or reads."""
    name = job.random.choice([*sorted(path.name for path in job.folder.glob("*.npy")), "weights.pt2", "step.so"])
    path = job.folder / name
    os.truncate(path, job.random.randrange(path.stat().st_size))
    return Expected(True, False, re.escape(name)) if name.endswith(".npy") else GOES_ON


def change_file(job: Job) -> Expected:
    """A file that is not needed any more. An input that changes is another input."""
    path = job.folder / job.random.choice(["weights.pt2", "step.so"])
    content = bytearray(path.read_bytes())
    at = job.random.randrange(len(content))
    content[at:] = job.random.randbytes(len(content) - at)
    path.write_bytes(content)
    return GOES_ON


def fill_disk(job: Job) -> Expected:
    """The log goes on elsewhere, and training goes on."""
    with suppress(OSError), open(job.folder / "rest", "wb", buffering=0) as rest:
        while True:
            rest.write(bytes(4096))
    names = (
        r"--params-out .*No space left on device.* they are in .* instead; "
        r"--json .*No space left.* is in .* instead"
    )
    return Expected(True, False, names, is_whole=True)


def remove_file(job: Job) -> Expected:
    """Files that are open stay readable."""
    job.random.choice([*job.folder.glob("*.npy"), job.folder / "weights.pt2", job.folder / "step.so"]).unlink()
    return GOES_ON


def visit(job: Job) -> Expected:
    """Connects as a stranger, sends some bytes, and leaves."""
    with socket.create_connection(("127.0.0.1", job.port()), timeout=5) as stranger:
        stranger.sendall(job.random.randbytes(job.random.randrange(64)))
    return GOES_ON


def second_job(job: Job) -> Expected:
    """Another job with the same files, while the first one runs."""
    arguments = [str(part) for part in job.process.args]
    done = subprocess.run(arguments, env=environment(), capture_output=True, text=True, timeout=END_SECONDS)
    if done.returncode != 1 or "another job writes this file" not in done.stderr or job.process.poll() is not None:
        return Expected(False, False)
    job.process.send_signal(signal.SIGTERM)
    return ENDS


def move_folder(job: Job) -> Expected:
    """The folder of a file that is written at the end is gone, so that it is kept elsewhere."""
    (job.folder / "results").rename(job.folder / "moved")
    return Expected(True, False, r"--params-out .* they are in .* instead", is_whole=True)


def interrupt(job: Job) -> Expected:
    job.process.send_signal(job.random.choice([signal.SIGTERM, signal.SIGINT]))
    return ENDS


ACCIDENTS: dict[str, Callable[[Job], Expected]] = {
    "a rank is killed": kill,
    "a rank is stopped for a while": stop,
    "a file is cut": cut_file,
    "a file is removed": remove_file,
    "a file is changed": change_file,
    "the disk is full": fill_disk,
    "a stranger connects": visit,
    "a second job has the same files": second_job,
    "the folder of the results is moved": move_folder,
    "the job is interrupted": interrupt,
}

# Kinds that this machine or this user cannot try, and why.
IMPOSSIBLE = {"the disk is full": reason} if (reason := why_no_disk()) else {}


def judge(job: Job, expected: Expected, errors: str, losses: list[float]) -> str:
    """Returns what is wrong with the end of a job that printed `errors`; empty if nothing is."""
    ended = job.process.returncode != 0
    if ended and not expected.may_end:
        return f"ended with exit code {job.process.returncode}: {errors}"
    if not ended and not expected.may_go_on:
        return "went on as if nothing had happened"
    if ended and expected.names and (len(re.findall("error: ", errors)) != 1 or not re.search(expected.names, errors)):
        return f"expected one error that names {expected.names!r}, got {errors!r}"
    logs = [job.folder / LOG, *(job.folder.parent / ELSEWHERE).glob("*.jsonl")]
    done = [step["loss"] for log in logs for step in read_log(log)]
    must_be_whole = expected.is_whole if ended else True
    if done[:STEPS] != losses[: len(done)] or (must_be_whole and len(done) != job.steps_to_do):
        return f"computed something else in {len(done)} steps"
    return leftovers(job.folder)


def leftovers(folder: Path) -> str:
    """Returns what is wrong with the files that a job has left; empty if nothing is."""
    left = [path.name for path in (*folder.iterdir(), *folder.glob("results/*")) if path.suffix in (".tmp", ".lock")]
    return f"left {left}" if left else ""


def attempt(workshop: Workshop, folder: Path, kind: str, seed: int, losses: list[float]) -> str:
    """Does one thing to one job; returns what is wrong, or an empty text."""
    for made in (folder, folder.parent / ELSEWHERE):
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
    with small_disk(folder) if ACCIDENTS[kind] is fill_disk else nullcontext():
        return _attempt(workshop, folder, kind, seed, losses)


def _attempt(workshop: Workshop, folder: Path, kind: str, seed: int, losses: list[float]) -> str:
    job = start(workshop, folder, seed, MANY_STEPS if ACCIDENTS[kind] is second_job else STEPS)
    try:
        job.wait_for_step(job.random.randrange(1, STEPS // 4))
        if job.process.poll() is not None:
            return f"ended before anything was done: {job.process.communicate()[1]}"
        expected = ACCIDENTS[kind](job)
        _, errors = job.process.communicate(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        return f"still ran after {END_SECONDS} seconds"
    finally:
        if job.process.poll() is None:
            job.process.kill()
        job.process.communicate()
    return judge(job, expected, errors, losses)


def undisturbed(workshop: Workshop, folder: Path) -> list[float]:
    """The losses of a job to which nothing happens."""
    folder.mkdir(parents=True)
    (folder.parent / ELSEWHERE).mkdir(exist_ok=True)
    job = start(workshop, folder, 0, STEPS)
    _, errors = job.process.communicate(timeout=END_SECONDS)
    assert job.process.returncode == 0, errors
    return [step["loss"] for step in read_log(folder / LOG)]
