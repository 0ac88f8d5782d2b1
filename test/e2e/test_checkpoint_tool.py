# SPDX-License-Identifier: Apache-2.0
"""fcdp-ckpt on checkpoints that jobs have saved, and jobs on checkpoints that it has written."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import state_dict as sd

from fcdp.checkpoint.cli import main
from harness import ADAMW, Config, Run, Workshop, assert_bit_equal, parameters, read_log, run_command, tool
from models import build

CONFIG = Config("gpt_tied", 2, 2, "fcdp")
BATCH_NORM = Config("convnet_bn", 2, 1, "zero3", optimizer="sgd,lr=0.1,momentum=0.9")
SETTINGS = {"lr": 1e-3, "eps": 1e-3}

pytestmark = pytest.mark.filterwarnings("ignore")


def ckpt(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


@dataclass(frozen=True)
class Job:
    """A job of three steps, which has saved after each."""

    folder: Path
    parameters: Path


def train(workshop: Workshop, config: Config, steps: int, folder: Path, *options: str, weights: Path | None = None) -> Run:
    """Runs up to step `steps`, and saves in `folder`."""
    model = workshop.model(config.model)
    log, out = folder.with_suffix(".jsonl"), folder.with_suffix(".safetensors")
    files = (f"--save-dir={folder}", f"--json={log}", f"--params-out={out}")
    tool(*run_command(workshop.step(config), weights or model.archive, model.inputs, steps, *files, *options))
    return Run(read_log(log), out)


@pytest.fixture(scope="module")
def job(workshop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Config], Job]:
    jobs: dict[Config, Job] = {}

    def make(config: Config) -> Job:
        if config not in jobs:
            folder = tmp_path_factory.mktemp("job") / "run"
            jobs[config] = Job(folder, train(workshop, config, 3, folder, "--save-every=1").parameters)
        return jobs[config]

    return make


@pytest.mark.parametrize("config", [CONFIG, BATCH_NORM], ids=lambda config: config.model)
def test_weights_are_those_of_params_out(
    workshop: Workshop, tmp_path: Path, job: Callable[[Config], Job], config: Config
) -> None:
    made, out = job(config), tmp_path / "out"
    assert ckpt("diff", made.folder, made.parameters) == 0
    assert ckpt("diff", made.folder / "step-00000002", made.parameters) == 1
    assert ckpt("convert", made.folder, out, "--to=hf") == 0
    expected, found = parameters(made.parameters), parameters(out / "model.safetensors")
    assert found.keys() == expected.keys()
    assert all(found[name].equal(expected[name]) for name in expected)
    runs = [
        train(workshop, config, 1, tmp_path / path.stem, weights=path)
        for path in (out / "model.safetensors", made.parameters)
    ]
    assert_bit_equal(*runs)


@pytest.mark.parametrize("config", [CONFIG, BATCH_NORM], ids=lambda config: config.model)
def test_a_job_goes_on_from_a_converted_checkpoint(
    workshop: Workshop, tmp_path: Path, job: Callable[[Config], Job], config: Config
) -> None:
    made, back = job(config), tmp_path / "back" / "step-00000003"
    assert ckpt("convert", made.folder, tmp_path / "dcp", "--to=dcp") == 0
    assert ckpt("convert", tmp_path / "dcp", back, "--to=fcdp") == 0
    assert ckpt("diff", made.folder, back) == 0
    runs = [train(workshop, config, 5, tmp_path / path.name, f"--resume={path}") for path in (made.folder, back)]
    assert_bit_equal(*runs)


def test_other_ranks_save_an_equal_state(workshop: Workshop, tmp_path: Path, job: Callable[[Config], Job]) -> None:
    made, other = job(CONFIG), Config("gpt_tied", 1, 3, "zero1")
    train(workshop, other, 3, tmp_path / "other", f"--resume={made.folder}")
    assert ckpt("diff", made.folder, tmp_path / "other") == 0
    assert ckpt("diff", made.folder / "step-00000002", tmp_path / "other") == 1


def test_pytorch_goes_on_and_back(workshop: Workshop, tmp_path: Path, job: Callable[[Config], Job]) -> None:
    made = job(CONFIG)
    assert ckpt("convert", made.folder, tmp_path / "dcp", "--to=dcp", f"--optimizer={ADAMW}") == 0
    model = build(CONFIG.model, seed=1)
    optimizer = torch.optim.AdamW(model.parameters(), **SETTINGS)
    state = {"model": sd.get_model_state_dict(model), "optim": sd.get_optimizer_state_dict(model, optimizer)}
    dcp.load(state, checkpoint_id=tmp_path / "dcp", no_dist=True)
    sd.set_model_state_dict(model, state["model"])
    sd.set_optimizer_state_dict(model, optimizer, state["optim"])
    expected = parameters(made.parameters)
    for name, value in model.named_parameters():
        assert value.equal(expected[name]), name
        assert optimizer.state[value]["step"] == 3

    # PyTorch's checkpoint has no ties; the job's own checkpoint knows them.
    state = {"model": sd.get_model_state_dict(model), "optim": sd.get_optimizer_state_dict(model, optimizer)}
    dcp.save(state, checkpoint_id=tmp_path / "again", no_dist=True)
    back = tmp_path / "back" / "step-00000003"
    assert ckpt("convert", tmp_path / "again", back, "--to=fcdp", f"--like={made.folder}") == 0
    assert ckpt("diff", tmp_path / "again", back) == 0
    # The model has no dropout, so nothing depends on the random state, which PyTorch's checkpoint does not have.
    again = train(workshop, CONFIG, 4, tmp_path / "end", f"--resume={back}")
    whole = workshop.run(CONFIG, 4)
    assert again.losses[-1] == whole.losses[-1]
    assert again.parameters.read_bytes() == whole.parameters.read_bytes()


def test_weights_begin_a_job_of_their_own(workshop: Workshop, tmp_path: Path, job: Callable[[Config], Job]) -> None:
    """New optimizer states are those of a job that begins with the weights."""
    made, fitted = job(CONFIG), tmp_path / "fitted" / "step-00000000"
    arguments = ("--to=fcdp", f"--like={made.folder}", "--step=0")
    assert ckpt("convert", made.parameters, fitted, *arguments) == 0
    first = train(workshop, CONFIG, 2, tmp_path / "first", f"--resume={fitted}")
    second = train(workshop, CONFIG, 2, tmp_path / "second", weights=made.parameters)
    assert_bit_equal(first, second)


def test_a_job_goes_on_after_prune(workshop: Workshop, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(workshop, CONFIG, 3, folder, "--save-every=1")
    (folder / "step-00000009.partial").mkdir()
    assert ckpt("prune", folder, "--keep=1", "--force") == 0
    assert [path.name for path in folder.iterdir()] == ["step-00000003"]
    log = train(workshop, CONFIG, 4, folder, "--resume")
    assert log.losses == workshop.run(CONFIG, 4).losses
