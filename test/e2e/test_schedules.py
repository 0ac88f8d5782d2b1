# SPDX-License-Identifier: Apache-2.0
"""Learning rates that change from step to step are PyTorch's, and a job that resumes goes on with them."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import (
    ConstantLR,
    CosineAnnealingLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    SequentialLR,
)

import fcdp
from checkpoints import assert_equal_tensors, read_checkpoint
from harness import (
    ADAMW,
    Config,
    Run,
    Workshop,
    assert_bit_equal,
    parameters,
    read_log,
    relative_error,
    run_command,
    tool,
)
from models import build

STEPS = 12
RATE = 1e-3
SCHEDULE = "cosine,warmup=3,steps=10,min=0.1"


def by_hand(step: int) -> float:
    """SCHEDULE, as a training loop would have it."""
    if step < 3:
        return step / 3
    if step >= 10:
        return 0.1
    return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * (step - 3) / 7))


def run(workshop: Workshop, config: Config, out: Path, *extra: str, steps: int = STEPS) -> Run:
    model = workshop.model(config.model)
    log, weights = out.with_suffix(".jsonl"), out.with_suffix(".safetensors")
    files = (f"--json={log}", f"--params-out={weights}")
    tool(*run_command(workshop.step(config), model.archive, model.inputs, steps, *files, *extra))
    return Run(read_log(log), weights)


def rates(run: Run) -> list[float]:
    return [step["learning_rate"] for step in run.steps]


def rates_of(make: Callable[[Optimizer], LRScheduler]) -> list[float]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
    scheduler, expected = make(optimizer), []
    for _ in range(STEPS):
        expected.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return expected


TORCH = {
    "constant": lambda o: ConstantLR(o, factor=1),
    "constant,warmup=4,start=0.25": lambda o: LinearLR(o, start_factor=0.25, total_iters=4),
    "linear,steps=8,min=0.5": lambda o: LinearLR(o, start_factor=1, end_factor=0.5, total_iters=8),
    "cosine,warmup=3,start=0.1,steps=12,min=0.2": lambda o: SequentialLR(
        o, [LinearLR(o, 0.1, total_iters=3), CosineAnnealingLR(o, T_max=9, eta_min=0.2 * RATE)], milestones=[3]
    ),
    "wsd,warmup=2,start=0.5,steps=10,decay=4,min=0.25": lambda o: SequentialLR(
        o, [LinearLR(o, 0.5, total_iters=2), LinearLR(o, 1, 0.25, total_iters=4)], milestones=[6]
    ),
    SCHEDULE: lambda o: LambdaLR(o, by_hand),
    "wsd,steps=9,decay=6,shape=sqrt": lambda o: LambdaLR(
        o, lambda step: 1 if step < 3 else 1 - math.sqrt(min(step - 3, 6) / 6)
    ),
}


@pytest.mark.parametrize("schedule", TORCH)
def test_rates_are_those_of_pytorch(workshop: Workshop, tmp_path: Path, schedule: str) -> None:
    config = Config("mlp_dropout", 1, 1, "zero3", optimizer=f"sgd,lr={RATE}")
    trained = run(workshop, config, tmp_path / "run", f"--schedule={schedule}")
    assert rates(trained) == pytest.approx(rates_of(TORCH[schedule]), rel=1e-12, abs=1e-18)


def test_rates_are_those_of_transformers(workshop: Workshop, tmp_path: Path) -> None:
    optimization = pytest.importorskip("transformers.optimization")
    config = Config("mlp_dropout", 1, 1, "zero3", optimizer=f"sgd,lr={RATE}")
    for schedule, make in (
        ("linear,warmup=3,steps=10", lambda o: optimization.get_linear_schedule_with_warmup(o, 3, 10)),
        ("cosine,warmup=3,steps=12", lambda o: optimization.get_cosine_schedule_with_warmup(o, 3, 12)),
        ("constant,warmup=3", lambda o: optimization.get_constant_schedule_with_warmup(o, 3)),
    ):
        trained = run(workshop, config, tmp_path / "run", f"--schedule={schedule}")
        assert rates(trained) == rates_of(make), schedule


@pytest.mark.parametrize("optimizer", [ADAMW, "sgd,lr=1e-3,momentum=0.9"])
def test_training_is_that_of_pytorch(workshop: Workshop, tmp_path: Path, optimizer: str) -> None:
    config = Config("gpt", micro_batches=2, optimizer=optimizer)
    rate = 0.5 if optimizer.startswith("sgd") else 5e-3
    trained = run(workshop, config, tmp_path / "run", f"--schedule={SCHEDULE}", f"--lr={rate}")
    model = build(config.model)
    data = fcdp.batches_from_npy(workshop.model(config.model).inputs, config.world, config.micro_batches)
    expected = fcdp.reference(
        model,
        data,
        optimizer.replace("lr=1e-3", f"lr={rate}"),
        STEPS,
        world=config.world,
        seed=0,
        schedule=lambda optimizer: LambdaLR(optimizer, by_hand),
    )
    assert rates(trained) == [rate * by_hand(step) for step in range(STEPS)]
    assert relative_error(trained.losses, expected) <= 1e-5
    values = parameters(trained.parameters)
    for name, value in model.named_parameters():
        assert values[name].allclose(value, rtol=1e-4, atol=1e-6), name
    # The test can fail: the schedule changes what is learned.
    constant = run(workshop, config, tmp_path / "constant", f"--lr={rate}")
    assert relative_error(trained.losses, constant.losses) > 1e-3


@pytest.mark.parametrize("strategy", ["zero3", "ddp", "hpz"])
def test_strategies_are_bit_equal(workshop: Workshop, tmp_path: Path, strategy: str) -> None:
    options = (f"--schedule={SCHEDULE}", "--lr=0.01")
    one = run(workshop, Config("gpt"), tmp_path / "fcdp", *options)
    assert_bit_equal(one, run(workshop, Config("gpt", strategy=strategy), tmp_path / strategy, *options))


def test_a_given_rate_is_that_of_a_compiled_one(workshop: Workshop, tmp_path: Path) -> None:
    compiled = run(workshop, Config("gpt", optimizer=ADAMW.replace("lr=1e-3", "lr=0.02")), tmp_path / "compiled", steps=4)
    given = run(workshop, Config("gpt"), tmp_path / "given", "--lr=0.02", steps=4)
    assert_bit_equal(compiled, given)
    assert rates(given) == [0.02] * 4


def test_a_resumed_job_goes_on_with_its_schedule(workshop: Workshop, tmp_path: Path) -> None:
    config, options = Config("gpt"), (f"--schedule={SCHEDULE}", "--lr=0.01")
    whole = run(workshop, config, tmp_path / "whole", f"--save-dir={tmp_path / 'whole'}", *options, steps=6)
    halves = (f"--save-dir={tmp_path / 'halves'}", "--resume")
    run(workshop, config, tmp_path / "halves", *halves, *options, steps=3)
    assert_bit_equal(whole, run(workshop, config, tmp_path / "halves", *halves, steps=6))
    one, other = (read_checkpoint(tmp_path / name / "step-00000006") for name in ("whole", "halves"))
    assert one.index["job"]["schedule"] == SCHEDULE and one.index["job"]["learning_rate"] == 0.01
    assert one.index == other.index
    assert_equal_tensors(one.states, other.states)


def test_a_resumed_job_takes_a_new_schedule(workshop: Workshop, tmp_path: Path) -> None:
    config, resumed = Config("gpt"), f"--resume={tmp_path / 'run'}"
    first = (f"--save-dir={tmp_path / 'run'}", f"--schedule={SCHEDULE}", "--lr=0.01")
    run(workshop, config, tmp_path / "first", *first, steps=3)
    for options, expected in (
        ((), [0.01 * by_hand(step) for step in (3, 4)]),
        (("--schedule=linear,steps=6",), [0.01 * 3 / 6, 0.01 * 2 / 6]),
        (("--schedule=constant",), [0.01, 0.01]),
        (("--lr=1",), [by_hand(step) for step in (3, 4)]),
    ):
        again = run(workshop, config, tmp_path / "again", resumed, *options, steps=5)
        assert rates(again) == pytest.approx(expected, rel=1e-15), options


def test_the_line_of_a_step_says_the_rate(workshop: Workshop) -> None:
    config = Config("gpt")
    model = workshop.model(config.model)
    out = tool(*run_command(workshop.step(config), model.archive, model.inputs, 2, "--schedule=constant,warmup=4"))
    assert [line.split("  ")[2] for line in out.splitlines() if line.startswith("step ")] == ["lr 0", "lr 0.00025"]
