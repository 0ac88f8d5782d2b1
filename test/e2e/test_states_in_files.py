# SPDX-License-Identifier: Apache-2.0
"""States in files: an update that streams them has the bits of one on the device."""

import ctypes
import errno
import resource
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from checkpoints import assert_equal_tensors, read_checkpoint
from harness import Config, ToolError, Workshop, assert_bit_equal, read_plan, run_command, tool
from optimizer_checks import STEPS, assert_planned_memory, save
from test_states_on_host import CONFIGS, WHOLE, states_in

FILE = "file,piece=20000"


def in_files(config: Config, states: str = FILE) -> Config:
    return replace(config, states=states)


@pytest.mark.parametrize("name", [*CONFIGS, *WHOLE])
def test_bits_are_those_of_states_on_the_device(workshop: Workshop, name: str) -> None:
    config = CONFIGS.get(name) or replace(WHOLE[name], clip_norm=0.05)
    assert_bit_equal(workshop.run(config, STEPS), workshop.run(in_files(config), STEPS))
    if name in CONFIGS:  # the others' products of matrices take memory from the system
        assert_planned_memory(workshop, in_files(config))


def test_only_files_have_states(workshop: Workshop) -> None:
    config = CONFIGS["everything"]
    device, host, file = (read_plan(workshop.step(replace(config, states=name))) for name in ("", "host", FILE))
    assert states_in(file, "file") == states_in(host, "host") - states_in(device, "host") > 0
    assert states_in(file, "host") == states_in(device, "host") and file["host_bytes"] == device["host_bytes"]
    assert states_in(file, "file") <= file["file_bytes"] < states_in(file, "file") * 1.2
    assert host["file_bytes"] == device["file_bytes"] == 0
    copies = [op[end] for op in file["ops"] if op["kind"].startswith("state_") for end in ("in", "out")]
    offsets = {copy["offset"] for copy in copies if copy["arena"] == "file"}
    # Some buckets have several pieces.
    places = [place for bucket in file["buckets"] for place in bucket["states"].values() if place["arena"] == "file"]
    assert len(offsets) > len(places)
    assert not any(offset % 4096 for offset in offsets)


def test_checkpoints_go_on_with_states_elsewhere(workshop: Workshop, tmp_path: Path) -> None:
    """From host memory to files on another mesh, and back to the device."""
    file, host = (replace(CONFIGS["everything"], states=name) for name in (FILE, "host"))
    path = f"--state-path={workshop.state_folder}"
    save(workshop, host, tmp_path / "host", STEPS)
    half = tmp_path / "host" / f"step-{STEPS // 2:08}"
    save(workshop, file, tmp_path / "file", STEPS, f"--resume={half}", path)
    states = [read_checkpoint(tmp_path / name / f"step-{STEPS:08}").states for name in ("host", "file")]
    assert_equal_tensors(*states)
    assert {"master", "exp_avg", "exp_avg_sq"} <= {role for role, _ in states[0]}
    device = replace(CONFIGS["everything"], states="")
    save(workshop, device, tmp_path / "back", STEPS + 1, f"--resume={tmp_path / 'file'}")
    save(workshop, host, tmp_path / "host", STEPS + 1, "--resume")
    assert_equal_tensors(
        *(read_checkpoint(tmp_path / name / f"step-{STEPS + 1:08}").states for name in ("host", "back"))
    )
    other = replace(file, nodes=1, local=2)
    save(workshop, other, tmp_path / "moved", STEPS, f"--resume={tmp_path / 'host' / f'step-{STEPS:08}'}", path)
    assert not any(workshop.state_folder.iterdir())


def test_a_folder_is_required(workshop: Workshop) -> None:
    config = in_files(Config("mlp_dropout", 1, 1, "zero3"))
    model = workshop.model(config.model)
    command = run_command(workshop.step(config), model.archive, model.inputs, 1)
    with pytest.raises(ToolError, match=r"bytes of states in files on each rank: expected folders .* --state-path=DIR"):
        tool(*command)
    with pytest.raises(ToolError, match="/no/folder: cannot be used for states: No such file or directory"):
        tool(*command, "--state-path=/no/folder")


def forbid_io_uring() -> None:
    """Makes io_uring_setup fail in this process and those that it starts, as in a container."""
    load, equal, end, allow, error = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000
    # The number of the call is the first word; it is the same on all machines.
    program = b"".join(
        struct.pack("HBBI", *line)
        for line in ((load, 0, 0, 0), (equal, 0, 1, 425), (end, 0, 0, error | errno.EPERM), (end, 0, 0, allow))
    )
    memory = ctypes.create_string_buffer(program)
    filters = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(memory)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(38, 1, 0, 0, 0) or prctl(22, 2, ctypes.c_void_p(ctypes.addressof(filters)), 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def test_threads_read_and_write_where_io_uring_is_forbidden(workshop: Workshop, tmp_path: Path) -> None:
    config = in_files(Config("mlp_dropout", 1, 1, "zero3"))
    model, out = workshop.model(config.model), tmp_path / "out.safetensors"
    files = (f"--params-out={out}", f"--state-path={workshop.state_folder}")
    command = run_command(workshop.step(config), model.archive, model.inputs, STEPS, *files)
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, preexec_fn=forbid_io_uring, check=True)
    assert "note: threads read and write the states in files" in done.stdout + done.stderr
    assert out.read_bytes() == workshop.run(config, STEPS).parameters.read_bytes()


def descendants(pid: int) -> list[int]:
    """The process and those that it has started."""
    children = (Path("/proc") / str(pid) / "task" / str(pid) / "children").read_text().split()
    return [pid, *(one for child in children for one in descendants(int(child)))]


def test_a_disk_that_fails_ends_the_job_by_name(workshop: Workshop, tmp_path: Path) -> None:
    """The last checkpoint is whole, and the job goes on from it."""
    config = in_files(Config("mlp_dropout", 1, 1, "zero3", optimizer="adamw,lr=1e-3"), "file")
    model = workshop.model(config.model)
    path = f"--state-path={workshop.state_folder}"
    save(workshop, config, tmp_path, 2, path)
    files = (f"--save-dir={tmp_path}", "--resume", "--save-every=1000000", path)
    command = run_command(workshop.step(config), model.archive, model.inputs, 1_000_000, *files)
    error = fail_writes(command)
    assert f"{workshop.state_folder}: cannot be written with states of the optimizer: File too large" in error
    assert read_checkpoint(tmp_path / "step-00000002").states
    save(workshop, config, tmp_path, 4, "--resume", path)


def fail_writes(command: Sequence[object]) -> str:
    """The error of a job whose disk fails after a few steps."""
    # Python ignores the signal for a file that is too large, and so does the program.
    process = subprocess.Popen(
        [*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, restore_signals=False
    )
    assert process.stdout is not None
    while not process.stdout.readline().startswith("step 3"):
        assert process.poll() is None
    for pid in descendants(process.pid):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, 1))
    error = process.communicate(timeout=60)[1]
    assert process.returncode not in (0, None)
    return error
