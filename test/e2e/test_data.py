# SPDX-License-Identifier: Apache-2.0
"""The order of rows: epochs, shuffled rows, and runs that go on in the middle of an epoch."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import fcdp
from checkpoints import read_checkpoint
from harness import Config, Run, ToolError, Workshop, assert_bit_equal, read_log, relative_error, run_command, tool
from models import build

# 16 windows, of which a step reads 4 or 8: an epoch ends in step 4 or 2.
WINDOWS = 16
TOLERANCE = 1e-5


@pytest.fixture
def tokens(workshop: Workshop, tmp_path: Path) -> dict[str, str]:
    """The inputs of the model gpt from one file of tokens."""
    rows = np.load(workshop.model("gpt").inputs["ids"])
    file = tmp_path / "tokens.u16"
    np.random.default_rng(5).integers(0, 96, WINDOWS * rows[0].size + 1).astype("<u2").tofile(file)
    return {"ids": f"{file}:u16", "labels": f"{file}:u16+1"}


class Job:
    """Runs of the model gpt on `inputs`, which save checkpoints in `folder`."""

    def __init__(self, workshop: Workshop, folder: Path, inputs: dict[str, str]):
        self.workshop, self.folder, self.inputs = workshop, folder, inputs
        self.said: list[str] = []

    def run(self, config: Config, steps: int, *options: str) -> Run:
        log, out = self.folder.with_suffix(".jsonl"), self.folder.with_suffix(".safetensors")
        files = (f"--save-dir={self.folder}", f"--json={log}", f"--params-out={out}", "--resume")
        archive = self.workshop.model("gpt").archive
        printed = tool(*run_command(self.workshop.step(config), archive, self.inputs, steps, *files, *options))
        self.said = printed.splitlines()
        return Run(read_log(log), out)


@pytest.fixture
def job(workshop: Workshop, tmp_path: Path, tokens: dict[str, str]) -> Callable[[str], Job]:
    return lambda name: Job(workshop, tmp_path / name, tokens)


def reference(workshop: Workshop, config: Config, inputs: dict[str, str], steps: int, data: str) -> Sequence[float]:
    shape = np.load(workshop.model("gpt").inputs["ids"]).shape[1:]
    sources = {name: fcdp.open_input(text, shape) for name, text in inputs.items()}
    batches = fcdp.batches(sources, config.world, config.micro_batches, data)
    return fcdp.reference(build("gpt"), batches, config.optimizer, steps, world=config.world, seed=0)


def test_shuffled_rows_are_those_of_the_reference(
    workshop: Workshop, tokens: dict[str, str], job: Callable[[str], Job]
) -> None:
    config = Config("gpt", 2, 2)
    shuffled, in_order = job("shuffled").run(config, 6, "--data=shuffle=7"), job("in-order").run(config, 6)
    assert relative_error(shuffled.losses, reference(workshop, config, tokens, 6, "shuffle=7")) <= TOLERANCE
    assert relative_error(shuffled.losses, in_order.losses) > 100 * TOLERANCE


def test_the_end_of_an_epoch_is_said(job: Callable[[str], Job]) -> None:
    run = job("run")
    steps = run.run(Config("gpt", 2, 2), 9).steps
    assert [step["epoch"] for step in steps] == [1, 1, 1, 1, 2, 2, 2, 2, 3]
    assert [line for line in run.said if line.startswith("epoch ")] == [
        "epoch 1 ends: all 16 rows have been read",
        "epoch 2 ends: all 16 rows have been read",
    ]
    lines = [line.split("  ") for line in run.said if line.startswith("step ")]
    assert ["epoch 2" in line for line in lines] == [4 < step <= 8 for step in range(1, 10)]


@pytest.mark.parametrize("config", [Config("gpt", 2, 2), Config("gpt", 1, 2, "zero3", 4)], ids=lambda config: config.name)
@pytest.mark.parametrize("half", [1, 3])
def test_goes_on_within_an_epoch_bit_for_bit(job: Callable[[str], Job], config: Config, half: int) -> None:
    """An epoch ends before, and in the other case after, the step at which the second part begins."""
    whole = job("whole").run(config, 6, "--data=shuffle=7")
    job("parts").run(config, half, "--data=shuffle=7")
    parts = job("parts").run(config, 6, "--data=shuffle=7")
    assert_bit_equal(whole, parts)
    assert [step["epoch"] for step in whole.steps] == [step["epoch"] for step in parts.steps]
    assert whole.steps[-1]["epoch"] > 1


def test_other_ranks_go_on_within_an_epoch(job: Callable[[str], Job]) -> None:
    """A step of four ranks reads the rows of one of two ranks with two micro-batches."""
    four, two = Config("gpt", 2, 2), Config("gpt", 1, 2, micro_batches=2)
    whole = job("whole").run(four, 6, "--data=shuffle=7")
    job("parts").run(four, 3, "--data=shuffle=7")
    parts = job("parts")
    run = parts.run(two, 6, "--data=shuffle=7")
    assert relative_error(run.losses, whole.losses) <= TOLERANCE
    assert not any("when the checkpoint was saved" in line for line in parts.said)
    saved = read_checkpoint(parts.folder / "step-00000006").index["job"]
    assert (saved["rows"], saved["data"], saved["file_rows"]) == (24, "shuffle=7", [WINDOWS])


def test_files_with_weights(workshop: Workshop, tmp_path: Path, tokens: dict[str, str]) -> None:
    """The second file has three windows, of which a step reads one; runs go on bit for bit."""
    other, rows = tmp_path / "other.u16", np.load(workshop.model("gpt").inputs["ids"])
    np.random.default_rng(6).integers(0, 96, 3 * rows[0].size + 1).astype("<u2").tofile(other)
    inputs = {"ids": f"{tokens['ids']},{other}:u16", "labels": f"{tokens['labels']},{other}:u16+1"}
    config, data = Config("gpt", 2, 2), "shuffle=7,weights=0.75:0.25"
    whole, parts = (Job(workshop, tmp_path / name, inputs) for name in ("whole", "parts"))
    run = whole.run(config, 6, f"--data={data}")
    parts.run(config, 3, f"--data={data}")
    assert_bit_equal(run, parts.run(config, 6, f"--data={data}"))
    assert relative_error(run.losses, reference(workshop, config, inputs, 6, data)) <= TOLERANCE
    assert [step["epochs"] for step in run.steps] == [[1, 1], [1, 1], [1, 1], [1, 2], [1, 2], [2, 2]]
    ends = [line for line in whole.said if line.startswith("epoch ")]
    assert ends == [
        f"epoch 1 ends: all 3 rows of {other}:u16 have been read",
        f"epoch 1 ends: all 16 rows of {inputs['ids'].split(',')[0]} have been read",
        f"epoch 2 ends: all 3 rows of {other}:u16 have been read",
    ]


def test_training_reads_no_held_out_windows(workshop: Workshop, tmp_path: Path, tokens: dict[str, str]) -> None:
    """Files that differ in the last quarter alone train equally, and files that differ before it validate equally."""
    file, config = Path(tokens["ids"].removesuffix(":u16")), Config("gpt", 1, 2)
    original = np.fromfile(file, "<u2")
    # The first token of the first window that is held out is the last label of the window before it.
    first = WINDOWS * 3 // 4 * ((len(original) - 1) // WINDOWS)
    runs = []
    for number, changed in enumerate((slice(0), slice(first + 1, None), slice(0, first))):
        values = original.copy()
        values[changed] = (values[changed] + 1) % 96
        values.tofile(file)
        for split in ("train", "validation"):
            job = Job(workshop, tmp_path / f"{split}-{number}", tokens)
            # More than an epoch of either part.
            runs.append(job.run(config, 7, f"--data=shuffle=7,validation=0.25,split={split}"))
    train, validation, other_held_out, changed_validation, changed_train, other_trained = runs
    assert_bit_equal(train, other_held_out)
    assert_bit_equal(validation, other_trained)
    assert changed_train.losses[0] != train.losses[0] and changed_validation.losses[0] != validation.losses[0]
    assert [step["epoch"] for step in train.steps] == [1, 1, 1, 1, 1, 1, 2]
    assert [step["epoch"] for step in validation.steps] == [1, 1, 2, 2, 3, 3, 4]


def test_a_bad_token_of_a_large_file_ends_the_job_in_its_step(
    workshop: Workshop, tmp_path: Path, tokens: dict[str, str]
) -> None:
    """A file of more than 1 GiB, mostly a hole, is not read before the first step. Rank 1 reads the token in step 3."""
    file = Path(tokens["ids"].removesuffix(":u16"))
    bad = 5 * ((file.stat().st_size // 2 - 1) // WINDOWS) + 5
    with open(file, "r+b") as out:
        out.truncate(2**30 + 2)
        out.seek(2 * bad)
        out.write(b"\x60\0")
    job = Job(workshop, tmp_path / "run", tokens)
    with pytest.raises(ToolError) as error:
        job.run(Config("gpt", 1, 2), 4)
    text = str(error.value)
    assert text.count("error:") == 1, text
    assert f"{file}: input 'ids': value 96 at position {bad}: expected [0, 96)" in text, text
    steps = [step["step"] for step in read_log(job.folder.with_suffix(".jsonl"))]
    assert steps[:1] == [1] and steps[-1] < 3


def test_another_seed_is_said(job: Callable[[str], Job]) -> None:
    run = job("run")
    run.run(Config("gpt", 1, 2), 1, "--data=shuffle=7")
    run.run(Config("gpt", 1, 2), 2, "--data=shuffle=8")
    assert any(line.startswith('--data: was "shuffle=7" when the checkpoint was saved, is "shuffle=8";') for line in run.said)


def test_options_that_are_refused(job: Callable[[str], Job]) -> None:
    with pytest.raises(Exception) as error:
        job("run").run(Config("gpt", 1, 2), 1, "--data=shuffle=x")
    assert "--data: shuffle: expected a seed, a whole number in [0, 2^64), got 'x'" in str(error.value)
