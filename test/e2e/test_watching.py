# SPDX-License-Identifier: Apache-2.0
"""The figures of a step: its line, the log, and TensorBoard's event files."""

import math
import re
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import fcdp
from harness import Config, Workshop, read_log, run_command, tool
from models import build

CLIPPED = Config("gpt", micro_batches=2, optimizer="sgd,lr=0.5", clip_norm=0.05)


def run(workshop: Workshop, config: Config, steps: int, folder: Path, *options: str | Path) -> tuple[list[dict], list[str]]:
    """Returns the log, and the lines that were printed."""
    model, log = workshop.model(config.model), folder / "log.jsonl"
    command = run_command(workshop.step(config), model.archive, model.inputs, steps, f"--json={log}", *options)
    said = tool(*command).splitlines()
    return read_log(log), said


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def unmasked(crc: int) -> int:
    rotated = (crc - 0xA282EAD8) & 0xFFFFFFFF
    return (rotated >> 17 | rotated << 15) & 0xFFFFFFFF


def records(data: bytes) -> Iterator[bytes]:
    """The records of a TFRecord file, whose checksums must be right."""
    while data:
        length, of_length = struct.unpack("<QI", data[:12])
        assert unmasked(of_length) == crc32c(data[:8])
        record, (of_record,) = data[12 : 12 + length], struct.unpack("<I", data[12 + length : 16 + length])
        assert len(record) == length and unmasked(of_record) == crc32c(record)
        yield record
        data = data[16 + length :]


def varint(data: bytes) -> tuple[int, bytes]:
    value, shift = 0, 0
    while data[0] & 0x80:
        value, shift, data = value | (data[0] & 0x7F) << shift, shift + 7, data[1:]
    return value | data[0] << shift, data[1:]


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message of Protocol Buffers, by number."""
    while data:
        key, data = varint(data)
        if key & 7 == 0:
            value, data = varint(data)
        else:
            length, data = varint(data) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], data)
            value, data = data[:length], data[length:]
        yield key >> 3, value


def events(path: Path) -> list[dict[int, int | bytes]]:
    return [dict(fields(record)) for record in records(path.read_bytes())]


def scalars(event: dict[int, int | bytes]) -> dict[str, float]:
    """Returns the scalars of an event's summary."""
    values = (dict(fields(value)) for _, value in fields(event[5]))
    return {value[1].decode(): struct.unpack("<f", value[2])[0] for value in values}


def printed_steps(lines: list[str]) -> list[int]:
    return [int(line.split()[1]) for line in lines if line.startswith("step ")]


def test_norm_is_that_of_pytorch(workshop: Workshop) -> None:
    model = build(CLIPPED.model)
    batches = fcdp.batches_from_npy(workshop.model(CLIPPED.model).inputs, CLIPPED.world, CLIPPED.micro_batches)(0)
    for batch in batches:
        (model(**batch) / len(batches)).backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None]).item()
    assert norm > CLIPPED.clip_norm
    for config in (CLIPPED, replace(CLIPPED, clip_norm=1e6), replace(CLIPPED, strategy="hsdp")):
        assert workshop.run(config, 4).steps[0]["gradient_norm"] == pytest.approx(norm, rel=1e-5)


def test_norm_is_not_computed_without_a_bound(workshop: Workshop, tmp_path: Path) -> None:
    log, said = run(workshop, replace(CLIPPED, clip_norm=None), 1, tmp_path)
    assert "gradient_norm" not in log[0]
    assert not any("norm" in line for line in said)


@pytest.mark.parametrize("mode", ["stop", "skip", "continue"])
def test_norm_does_not_depend_on_what_happens_to_infinite_ones(workshop: Workshop, tmp_path: Path, mode: str) -> None:
    log, _ = run(workshop, CLIPPED, 2, tmp_path, f"--on-nonfinite={mode}")
    expected = workshop.run(CLIPPED, 4).steps[:2]
    assert [step["gradient_norm"] for step in log] == [step["gradient_norm"] for step in expected]


def test_lines_have_the_figures_and_fit_a_phone(workshop: Workshop, tmp_path: Path) -> None:
    log, said = run(workshop, CLIPPED, 3, tmp_path)
    number = r"\d[\d.e+-]*"
    first = rf"step \d  loss {number}  lr 0.5  epoch \d  norm ({number})"
    second = rf"  {number} s  {number}[kMG]? tok/s  exposed \d+%  left \d+:\d\d"
    at = [index for index, line in enumerate(said) if line.startswith("step ")]
    for index, step in zip(at, log, strict=True):
        found = re.fullmatch(first, said[index])
        assert found and found[1] == f"{step['gradient_norm']:.4g}", said[index]
        assert re.fullmatch(second, said[index + 1]), said[index + 1]
        assert step["tokens_per_second"] * step["seconds"] == pytest.approx(tokens_of(workshop), rel=1e-6)
        assert 0 < step["exposed_seconds"] < step["seconds"]
    assert log[-1]["seconds_left"] == 0 and log[0]["seconds_left"] == pytest.approx(2 * log[0]["seconds"])
    # Bytes and memory are printed where they change: after the first step, whose memory is not planned, and after the
    # second.
    assert said[at[0] + 2].startswith("  inter ")
    assert sum(line.startswith("  inter ") for line in said) <= 2
    assert max(map(len, said)) <= 64


def tokens_of(workshop: Workshop) -> int:
    rows = np.load(workshop.model(CLIPPED.model).inputs["ids"])
    return math.prod(rows.shape[1:]) * CLIPPED.micro_batches * CLIPPED.world


def test_log_every(workshop: Workshop, tmp_path: Path) -> None:
    log, said = run(workshop, CLIPPED, 8, tmp_path, "--log-every=3")
    assert [step["step"] for step in log] == list(range(1, 9))
    assert printed_steps(said) == [1, 3, 6, 8]


def test_tensorboard(workshop: Workshop, tmp_path: Path) -> None:
    folder = tmp_path / "boards" / "run"
    saved = f"--save-dir={tmp_path / 'saved'}"
    first, _ = run(workshop, CLIPPED, 4, tmp_path, f"--tensorboard={folder}", saved, "--log-every=2")
    (file,) = folder.iterdir()
    assert re.fullmatch(r"events\.out\.tfevents\.\d+\..*\.\d+", file.name)
    version, start, *steps = events(file)
    assert version[3] == b"brain.Event:2"
    # SessionLog.START: what other files have from here on is of no use.
    assert dict(fields(start[7])) == {1: 1} and start[2] == 1
    assert [event[2] for event in steps] == [1, 2, 4]
    for event in steps:
        logged = first[event[2] - 1]
        expected = {name: value for name, value in logged.items() if name != "step"}
        assert scalars(event) == pytest.approx(expected, rel=1e-6)
        assert "loss" in expected and "gradient_norm" in expected and "tokens_per_second" in expected

    run(workshop, CLIPPED, 6, tmp_path, f"--tensorboard={folder}", saved, "--resume")
    (other,) = set(folder.iterdir()) - {file}
    assert other.name > file.name
    _, start, *steps = events(other)
    assert start[2] == 5 and [event[2] for event in steps] == [5, 6]


def test_a_folder_that_cannot_be_made(workshop: Workshop, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RuntimeError, match=r"error: --tensorboard .*/file/board: cannot be created: Not a directory"):
        run(workshop, CLIPPED, 1, tmp_path, f"--tensorboard={tmp_path / 'file' / 'board'}")
