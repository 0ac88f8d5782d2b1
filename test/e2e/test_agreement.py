# SPDX-License-Identifier: Apache-2.0
"""A rank with other options, inputs or weights than the rest ends the job before its first step, on all ranks."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

import fcdp
from harness import Config, Workshop, compile_command, free_port, rank_environment, read_log, run_command, started, tool

CONFIG = Config("gpt", 2, 1)


def run_ranks(config: Config, commands: Sequence[Sequence[str | Path]]) -> list[str]:
    """Runs a rank with each command, expects all to fail, and returns what they printed."""
    port = free_port()
    ranks = [(command, rank_environment(config, rank, port)) for rank, command in enumerate(commands)]
    with started(ranks) as processes:
        said = [process.communicate(timeout=60)[1] for process in processes]
        assert [process.returncode for process in processes] == [1] * len(processes), said
    return said


def expect_difference(said: Sequence[str], *parts: str) -> None:
    for text in said:
        (line,) = [line for line in text.splitlines() if "error:" in line]
        for part in parts:
            assert part in line, line


@pytest.mark.parametrize(
    "odd, name, values",
    [
        (("--steps=3",), "--steps", ("2 on rank 0", "3 on rank 1")),
        (("--params-out={}/out",), "--params-out", ("not given on rank 0", "given on rank 1")),
        (("--trace={}/trace",), "--trace", ("not given on rank 0", "given on rank 1")),
        (("--profile={}/profile",), "--profile", ("not given on rank 0", "given on rank 1")),
        (("--seed=1",), "--seed", ("0 on rank 0", "1 on rank 1")),
        (("--schedule=linear,steps=9",), "--schedule", ("not given on rank 0", "linear,steps=9 on rank 1")),
        (("--lr=0.5",), "--lr", ("not given on rank 0", "0.5 on rank 1")),
    ],
)
def test_other_options(
    workshop: Workshop, tmp_path: Path, odd: tuple[str, ...], name: str, values: tuple[str, str]
) -> None:
    model = workshop.model("gpt")
    command = run_command(workshop.step(CONFIG), model.archive, model.inputs, 2)
    other = [part for part in command if not str(part).startswith(f"{name}=")] + [text.format(tmp_path) for text in odd]
    said = run_ranks(CONFIG, [command, other])
    expect_difference(said, f"the ranks differ in {name}: ", *(f"{value} (node" for value in values))
    assert list(tmp_path.iterdir()) == []


def test_other_inputs(workshop: Workshop, tmp_path: Path) -> None:
    model = workshop.model("gpt")
    ids = np.load(model.inputs["ids"])
    ids.flat[len(ids.flat) // 2] ^= 1
    np.save(tmp_path / "ids.npy", ids)
    commands = [
        run_command(workshop.step(CONFIG), model.archive, {**model.inputs, **changed}, 2)
        for changed in ({}, {"ids": tmp_path / "ids.npy"})
    ]
    said = run_ranks(CONFIG, commands)
    expect_difference(said, "the ranks differ in --input ids: ", str(model.inputs["ids"]), str(tmp_path / "ids.npy"))
    assert all(len(re.findall("digest [0-9a-f]{16}", text)) == 2 for text in said)


def test_equal_inputs_at_other_paths(workshop: Workshop, tmp_path: Path) -> None:
    model, log = workshop.model("gpt"), tmp_path / "log.jsonl"
    shutil.copy(model.inputs["ids"], tmp_path / "ids.npy")
    step, port = workshop.step(CONFIG), free_port()
    commands = [
        run_command(step, model.archive, {**model.inputs, "ids": ids}, 2, f"--json={log}")
        for ids in (model.inputs["ids"], tmp_path / "ids.npy")
    ]
    with started([(command, rank_environment(CONFIG, rank, port)) for rank, command in enumerate(commands)]) as ranks:
        for rank in ranks:
            _, errors = rank.communicate(timeout=60)
            assert rank.returncode == 0, errors
    assert [step["loss"] for step in read_log(log)] == workshop.run(CONFIG, 3).losses[:2]


def test_other_weights(workshop: Workshop, tmp_path: Path) -> None:
    """The files have equal sizes and headers."""
    model = workshop.model("gpt")
    step = workshop.step(CONFIG)
    whole = tmp_path / "one.safetensors"
    tool(*run_command(step, model.archive, model.inputs, 1, f"--params-out={whole}"))
    content = bytearray(whole.read_bytes())
    content[-1] ^= 1
    other = tmp_path / "other.safetensors"
    other.write_bytes(content)
    said = run_ranks(CONFIG, [run_command(step, path, model.inputs, 2) for path in (whole, other)])
    expect_difference(said, "the ranks differ in the weights: ", str(whole), str(other))


def test_one_byte_of_a_large_input(workshop: Workshop, tmp_path: Path) -> None:
    """More than a sample of the file covers."""
    model = workshop.model("gpt")
    rows = np.load(model.inputs["ids"])
    ids = np.resize(rows, (20_000_000 // rows[0].nbytes, *rows.shape[1:]))
    paths = [tmp_path / "one.npy", tmp_path / "other.npy"]
    np.save(paths[0], ids)
    ids.flat[len(ids.flat) // 3 + 12_345] ^= 1
    np.save(paths[1], ids)
    inputs = {"ids": "", "labels": "random:1:9"}
    said = run_ranks(
        CONFIG,
        [run_command(workshop.step(CONFIG), model.archive, {**inputs, "ids": path}, 2) for path in paths],
    )
    found = [f"{path}, {path.stat().st_size} bytes, digest" for path in paths]
    expect_difference(said, "the ranks differ in --input ids: ", *found)


@pytest.fixture(scope="module")
def checkpoints(workshop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of runs: one and two with checkpoints of step 2, three with one of step 3."""
    folder = tmp_path_factory.mktemp("runs")
    model = workshop.model("gpt")
    for name, steps, *extra in (("one", 2), ("two", 2, "--lr=0.5"), ("three", 3)):
        command = run_command(workshop.step(CONFIG), model.archive, model.inputs, steps, f"--save-dir={folder / name}", *extra)
        tool(*command)
    return folder


@pytest.mark.parametrize(
    "other, values",
    [("two/step-00000002", ("step 2, ", "step 2, ")), ("three/step-00000003", ("step 2, ", "step 3, "))],
)
def test_other_checkpoints(
    workshop: Workshop, checkpoints: Path, tmp_path: Path, other: str, values: tuple[str, str]
) -> None:
    """Each node has a folder of its own for what --resume names."""
    model = workshop.model("gpt")
    paths = [tmp_path / "of node 0", tmp_path / "of node 1"]
    for path, source in zip(paths, ("one/step-00000002", other)):
        shutil.copytree(checkpoints / source, path)
    commands = [
        run_command(workshop.step(CONFIG), model.archive, model.inputs, 4, f"--resume={path}") for path in paths
    ]
    said = run_ranks(CONFIG, commands)
    expect_difference(
        said,
        "the ranks differ in --resume: ",
        *(f"{path}, {value}" for path, value in zip(paths, values)),
        "on rank 0 (node 0, local 0); ",
        "on rank 1 (node 1, local 0); ",
    )


def test_equal_checkpoints_at_other_paths(workshop: Workshop, checkpoints: Path, tmp_path: Path) -> None:
    model, log, port = workshop.model("gpt"), tmp_path / "log.jsonl", free_port()
    shutil.copytree(checkpoints / "one", tmp_path / "copy")
    ranks = [
        (
            run_command(workshop.step(CONFIG), model.archive, model.inputs, 3, f"--resume={run}", f"--json={log}"),
            rank_environment(CONFIG, rank, port),
        )
        for rank, run in enumerate((checkpoints / "one", tmp_path / "copy"))
    ]
    with started(ranks) as processes:
        for process in processes:
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 0, errors
    assert [step["loss"] for step in read_log(log)] == workshop.run(CONFIG, 3).losses[2:]


class Scaled(torch.nn.Module):
    """Its step has a constant."""

    def __init__(self, scale: float):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 1)
        self.register_buffer("scale", torch.tensor([scale]), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.linear(x) * self.scale).square().mean()


def test_other_constants(tmp_path: Path) -> None:
    """Objects that differ in one bit of a constant, and are whole by themselves."""
    rows = torch.randn(2, 2, 4)
    np.save(tmp_path / "x.npy", rows.numpy())
    commands = []
    for name, scale in (("one", 1.0), ("other", -1.0)):
        archive, step = tmp_path / f"{name}.pt2", tmp_path / f"{name}.so"
        fcdp.export(Scaled(scale), (rows[0],), archive)
        tool(*compile_command(CONFIG, archive, step))
        commands.append(run_command(step, archive, {"x": tmp_path / "x.npy"}, 1))
    said = run_ranks(CONFIG, commands)
    expect_difference(said, "the ranks differ in the plan's hash: launcher rank 0 ", "launcher rank 1 ")
