# SPDX-License-Identifier: Apache-2.0
"""A dynamic loss scale for a model in float16, as torch.amp.GradScaler has it: the scale, the steps that are skipped
and the masters are those of a loop in PyTorch."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import fcdp
from checkpoints import assert_equal_tensors, folders, read_checkpoint, updates
from fcdp.checkpoint.digests import seal
from harness import ADAMW, Config, ToolError, Workshop, read_log, relative_error, run_command, tool
from models import build
from test_loop import train
from test_nonfinite import STEPS as FEW, Job
from test_watching import events, scalars

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS = 12
SCALED = Config("gpt_f16", 1, 2, "fcdp", 2, ADAMW, master="f32", loss_scale=True)
MOMENTUM = replace(SCALED, optimizer="sgd,lr=0.05,momentum=0.9")
# Gradients overflow at first, and again when the scale has grown.
SETTINGS = {"init": 2.0**24, "growth": 4, "backoff": 0.25, "interval": 2}
OPTION = "--loss-scale=" + ",".join(f"{key}={value}" for key, value in SETTINGS.items())
TINY = Config("tiny_params", 2, 2, "fcdp", 2, ADAMW, loss_scale=True)


def reference(workshop: Workshop, config: Config) -> tuple[list[dict[str, float]], dict[str, torch.Tensor]]:
    """Figures of each step, and the masters, of a loop as one writes it in PyTorch with a GradScaler."""
    model = build(config.model)
    masters = {name: value.detach().float().requires_grad_() for name, value in model.named_parameters()}
    name, *settings = config.optimizer.split(",")
    options = {key: float(value) for key, value in (setting.split("=") for setting in settings)}
    optimizer = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[name](masters.values(), **options)
    scaler = torch.amp.GradScaler("cpu", SETTINGS["init"], SETTINGS["growth"], SETTINGS["backoff"], SETTINGS["interval"])
    batches = fcdp.batches_from_npy(workshop.model(config.model).inputs, config.world, config.micro_batches)
    log, skipped = [], 0
    for step in range(STEPS):
        inputs = batches(step)
        total = 0.0
        optimizer.zero_grad(set_to_none=False)
        for batch in inputs:
            model.zero_grad()
            loss = model(**batch) if isinstance(batch, dict) else model(*batch)
            scaler.scale(loss).backward()
            total += loss.item()
            for name, parameter in model.named_parameters():
                gradient = parameter.grad.float() / len(inputs)
                master = masters[name]
                master.grad = gradient if master.grad is None else master.grad + gradient
        figures = {"loss": total / len(inputs), "loss_scale": scaler.get_scale()}
        scaler.unscale_(optimizer)
        if config.clip_norm is not None:
            figures["gradient_norm"] = torch.nn.utils.clip_grad_norm_(masters.values(), config.clip_norm).item()
        scaler.step(optimizer)
        scaler.update()
        skipped += scaler.get_scale() < figures["loss_scale"]
        log.append({**figures, "skipped_steps": skipped})
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(masters[name])
    return log, {name: master.detach() for name, master in masters.items()}


class Trained:
    """The log of a run, and the checkpoint at its end."""

    def __init__(self, workshop: Workshop, folder: Path, config: Config, *extra: str, steps: int = STEPS):
        model = workshop.model(config.model)
        files = (f"--json={folder}.jsonl", f"--save-dir={folder}", f"--tensorboard={folder}-board")
        self.output = tool(*run_command(workshop.step(config), model.archive, model.inputs, steps, *files, *extra))
        self.log = read_log(Path(f"{folder}.jsonl"))
        self.checkpoint = read_checkpoint(folder / f"step-{steps:08}")

    def column(self, name: str) -> list[float]:
        return [line[name] for line in self.log]


@pytest.mark.parametrize(
    "config", [SCALED, MOMENTUM, replace(SCALED, clip_norm=1.0)], ids=lambda config: config.name
)
def test_scales_losses_and_masters_are_those_of_grad_scaler(workshop: Workshop, tmp_path: Path, config: Config) -> None:
    log, masters = reference(workshop, config)
    run = Trained(workshop, tmp_path / "run", config, OPTION)
    scales = [line["loss_scale"] for line in log]
    # The scale has fallen, grown and fallen again.
    changes = [b > a for a, b in zip(scales, scales[1:]) if a != b]
    assert changes[0] is False and True in changes and changes[-1] is False, scales
    assert run.column("loss_scale") == scales
    assert run.column("skipped_steps") == [line["skipped_steps"] for line in log]
    assert relative_error(run.column("loss"), [line["loss"] for line in log]) <= 1e-4
    if config.clip_norm is not None:
        finite = [(ours["gradient_norm"], line["gradient_norm"]) for ours, line in zip(run.log, log)
                  if np.isfinite(line["gradient_norm"])]
        assert len(finite) == STEPS - log[-1]["skipped_steps"] and max(norm for norm, _ in finite) > config.clip_norm
        assert relative_error(*zip(*finite)) <= 1e-4
    for name, value in masters.items():
        master = run.checkpoint.states["master", name]
        torch.testing.assert_close(master, value, rtol=1e-4, atol=1e-5, msg=lambda text: f"{name}: {text}")
    assert set(updates(run.checkpoint).values()) == {(STEPS - log[-1]["skipped_steps"], True)}
    for line in log:
        assert f"  scale {line['loss_scale']:.8g}" in run.output
    (board,) = (tmp_path / "run-board").iterdir()
    assert [scalars(event)["loss_scale"] for event in events(board)[2:]] == scales


@pytest.mark.parametrize("strategy", ["zero1", "zero2", "zero3", "hpz", "hsdp", "mics", "ddp"])
def test_strategies_are_bit_equal(workshop: Workshop, tmp_path: Path, strategy: str) -> None:
    config = replace(SCALED, nodes=2)
    accumulate = "sharded" if strategy in ("zero1", "mics") else ""
    other = replace(config, strategy=strategy, accumulate=accumulate)
    one, two = (Trained(workshop, tmp_path / each.strategy, each, OPTION) for each in (config, other))
    assert one.column("skipped_steps")[-1] > 0
    for name in ("loss", "loss_scale", "skipped_steps"):
        assert one.column(name) == two.column(name)
    assert_equal_tensors(one.checkpoint.states, two.checkpoint.states)


@pytest.mark.parametrize("first", [1, 5])
def test_goes_on_bit_for_bit(workshop: Workshop, tmp_path: Path, first: int) -> None:
    """Also without the option, which the checkpoint has."""
    whole = Trained(workshop, tmp_path / "whole", SCALED, OPTION)
    half = Trained(workshop, tmp_path / "halves", SCALED, OPTION, "--resume", steps=first)
    job = half.checkpoint.index["job"]
    assert job["loss_scaling"] == OPTION.partition("=")[2]
    assert job["loss_scale"] == whole.log[first]["loss_scale"]
    halves = Trained(workshop, tmp_path / "halves", SCALED, "--resume")
    for name in ("loss", "loss_scale", "skipped_steps"):
        assert halves.column(name) == whole.column(name)
    assert_equal_tensors(whole.checkpoint.states, halves.checkpoint.states)
    assert halves.checkpoint.index["job"] == whole.checkpoint.index["job"]


def test_a_loop_of_pytorch_has_the_same_scales(workshop: Workshop, tmp_path: Path) -> None:
    whole = Trained(workshop, tmp_path / "whole", SCALED, OPTION)
    assert whole.column("skipped_steps")[-1] > 0
    options, setting = ["--master=f32", "--loss-scale=on"], OPTION.partition("=")[2]
    first = train(workshop, SCALED, (0, 5), tmp_path / "run", options=options, loss_scale=setting)
    assert first == whole.column("loss")[:5]
    assert train(workshop, SCALED, (5, STEPS), tmp_path / "run", options=options) == whole.column("loss")[5:]
    checkpoint = read_checkpoint(tmp_path / "run" / f"step-{STEPS:08}")
    assert_equal_tensors(whole.checkpoint.states, checkpoint.states)


def test_settings_at_resume_replace_those_of_the_checkpoint(workshop: Workshop, tmp_path: Path) -> None:
    before = Trained(workshop, tmp_path / "run", SCALED, "--loss-scale=init=256,interval=4", steps=3)
    assert before.checkpoint.index["job"]["growth_tracker"] == 3
    # The scale and its count of steps go on.
    after = Trained(workshop, tmp_path / "run", SCALED, "--resume", "--loss-scale=init=8,growth=8,interval=4", steps=6)
    assert after.column("loss_scale") == [256] * 4 + [2048] * 2
    fixed = Trained(workshop, tmp_path / "run", SCALED, "--resume", "--loss-scale=32", steps=8)
    assert fixed.column("loss_scale")[6:] == [32] * 2


def test_a_damaged_scale_is_refused(workshop: Workshop, tmp_path: Path) -> None:
    Trained(workshop, tmp_path / "run", SCALED, "--loss-scale=init=256", steps=1)
    index = tmp_path / "run" / "step-00000001" / "index.json"
    text = index.read_text()
    for wrong, message in (("-256.0", "expected a scale from 2^-24 to 3.4e38, got -256.0"), ("1e-9", "got 1e-09")):
        damaged = text.replace('"loss_scale":256.0', f'"loss_scale":{wrong}')
        # With the digest of what it has now.
        index.write_text(seal(damaged[: damaged.rindex(',"digest"')] + "}"))
        with pytest.raises(ToolError, match="index.json.job.loss_scale") as error:
            Trained(workshop, tmp_path / "run", SCALED, "--resume", steps=2)
        assert message in str(error.value)


def test_a_scale_that_is_too_small_loses_gradients(workshop: Workshop, tmp_path: Path) -> None:
    """In float16 nothing but zero is below 6e-8."""
    zeros = {}
    for scale in ("1e-3", "init=1024"):
        run = Trained(workshop, tmp_path / scale, SCALED, f"--loss-scale={scale}", steps=1)
        zeros[scale] = sum(int(value.eq(0).sum()) for (role, _), value in run.checkpoint.states.items() if role == "exp_avg")
    assert zeros["init=1024"] < 0.5 * zeros["1e-3"], zeros


@pytest.mark.parametrize("config", [TINY, replace(TINY, micro_batches=1, clip_norm=0.5)], ids=lambda config: config.name)
def test_a_power_of_two_changes_no_bit_in_float32(workshop: Workshop, tmp_path: Path, config: Config) -> None:
    plain = Trained(workshop, tmp_path / "plain", replace(config, loss_scale=False))
    assert "loss_scale" not in plain.log[0]
    for option in ((), ("--loss-scale=1024",)):
        run = Trained(workshop, tmp_path / f"scaled{len(option)}", config, *option)
        assert run.column("loss_scale") == [1024 if option else 65536] * STEPS
        assert run.column("loss") == plain.column("loss")
        assert_equal_tensors(plain.checkpoint.states, run.checkpoint.states)


def test_bytes_are_those_without_a_scale(workshop: Workshop) -> None:
    config = replace(SCALED, nodes=2)
    assert workshop.run(config, 2).traffic == workshop.run(replace(config, loss_scale=False), 2).traffic


# Moments change, and parameters do not.
STILL = replace(TINY, optimizer="adamw,lr=1e-30")


@pytest.mark.parametrize("config", [STILL, replace(STILL, strategy="hsdp")], ids=lambda config: config.name)
@pytest.mark.parametrize("mode", ["stop", "skip"])
def test_a_step_that_overflows_leaves_nothing_behind(workshop: Workshop, tmp_path: Path, config: Config, mode: str) -> None:
    """On one rank, with a finite loss: all ranks skip it."""
    job = Job(workshop, tmp_path, config)
    job.overflow(1)
    job.run("skip", job.data, f"--on-nonfinite={mode}")
    job.run("without", job.without(1))
    skip = job.log("skip")
    assert [line["skipped_steps"] for line in skip] == [0, 1, 1, 1]
    assert [line["loss_scale"] for line in skip] == [65536, 65536, 32768, 32768]
    assert all(line["loss"] is not None for line in skip)
    one = read_checkpoint(tmp_path / "skip" / f"step-{FEW:08}")
    other = read_checkpoint(tmp_path / "without" / f"step-{FEW - 1:08}")
    assert_equal_tensors(one.states, other.states)
    assert set(updates(one).values()) == {(FEW - 1, True)}


@pytest.mark.parametrize("mode", ["stop", "skip"])
def test_a_loss_that_is_nan_does_what_is_asked(workshop: Workshop, tmp_path: Path, mode: str) -> None:
    job = Job(workshop, tmp_path, TINY)
    job.damage(1, np.nan)
    extra = (f"--on-nonfinite={mode}", "--save-every=1", "--keep=1")
    if mode == "skip":
        job.run("run", job.data, *extra)
        assert [line["loss_scale"] for line in job.log("run")] == [65536, 65536, 32768, 32768]
        assert [line["skipped_steps"] for line in job.log("run")] == [0, 1, 1, 1]
        return
    with pytest.raises(ToolError, match="exit code 1") as error:
        job.run("run", job.data, *extra)
    text = str(error.value)
    assert text.count("fcdp-run: error: ") == 1, text
    assert "fcdp-run: error: step 2: the loss of micro-batch 2 of 2 on rank 3 (node 1, local 1) is NaN" in text
    assert folders(tmp_path / "run") == ["step-00000001"]


@pytest.mark.parametrize("mode", ["stop", "skip", "continue"])
def test_a_fixed_scale_does_what_is_asked(workshop: Workshop, tmp_path: Path, mode: str) -> None:
    job = Job(workshop, tmp_path, STILL)
    job.overflow(1)
    extra = (f"--on-nonfinite={mode}", "--loss-scale=1024")
    if mode == "stop":
        with pytest.raises(ToolError, match="exit code 1") as error:
            job.run("run", job.data, *extra)
        assert "fcdp-run: error: step 2: a gradient of '" in str(error.value)
        return
    job.run("run", job.data, *extra)
    log = job.log("run")
    assert [line["loss_scale"] for line in log] == [1024] * FEW
    assert log[-1]["skipped_steps"] == (mode == "skip")
    states = read_checkpoint(tmp_path / "run" / f"step-{FEW:08}").states
    isFinite = all(value.isfinite().all() for (role, *_), value in states.items() if role == "value")
    assert isFinite == (mode == "skip")


def test_a_scale_that_cannot_fall_ends_the_run(workshop: Workshop, tmp_path: Path) -> None:
    job = Job(workshop, tmp_path, STILL)
    for step in range(FEW):
        job.data["x"][(step + 1) * job.rows - 1] = 1e32
    with pytest.raises(ToolError, match="exit code 1") as error:
        job.run("run", job.data, "--on-nonfinite=skip", "--loss-scale=init=2.5e-7")
    text = str(error.value)
    assert text.count("fcdp-run: error: ") == 1, text
    assert "fcdp-run: error: step 3: numbers are infinite or NaN with the loss scale 6.25e-08, and" in text


def test_what_cannot_hold_is_refused(workshop: Workshop) -> None:
    def message(config: Config, *extra: str) -> str:
        model = workshop.model(config.model)
        with pytest.raises(ToolError) as error:
            tool(*run_command(workshop.step(config), model.archive, model.inputs, 1, *extra))
        assert str(error.value).count("fcdp-run: error: ") == 1, error.value
        return str(error.value)

    plain = replace(TINY, loss_scale=False)
    assert "expected a step that is compiled with --loss-scale=on, as a loss scale is given" in message(
        plain, "--loss-scale=1024"
    )
    for extra in ((), ("--loss-scale=init=8",)):
        assert "a loss scale that is not fixed skips steps" in message(TINY, "--on-nonfinite=continue", *extra)
    assert "--loss-scale: expected one number, or some of init=S" in message(TINY, "--loss-scale=dynamic")
