# SPDX-License-Identifier: Apache-2.0
"""Training goes on bit for bit from a checkpoint, on any mesh and strategy, and after anything that ends a job."""

import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from checkpoints import assert_equal_tensors, folders, read_checkpoint, updates
from harness import ADAMW, Config, ToolError, Workshop, environment, free_port, parameters, read_log, run_command, started, tool

MOMENTUM = "sgd,lr=0.1,momentum=0.9"


def command(workshop: Workshop, config: Config, steps: int, *extra: str | Path) -> list[str | Path]:
    model = workshop.model(config.model)
    return run_command(workshop.step(config), model.archive, model.inputs, steps, *extra)


@pytest.mark.parametrize(
    "config",
    [
        Config("gpt", 2, 2, "fcdp", 2, ADAMW),
        Config("gpt", 2, 2, "zero3", 1, MOMENTUM),
        Config("gpt", 2, 2, "zero1", 2, MOMENTUM),
        Config("gpt", 2, 2, "hsdp", 1, ADAMW),
        Config("gpt", 1, 2, "ddp", 2, ADAMW),
        Config("gpt_tied", 2, 1, "hpz", 1, ADAMW),
        Config("mlp_dropout", 2, 2, "fcdp", 2, ADAMW),
        Config("convnet_bn", 2, 2, "fcdp", 1, MOMENTUM),
    ],
    ids=lambda config: config.name,
)
def test_goes_on_bit_for_bit(workshop: Workshop, tmp_path: Path, config: Config) -> None:
    for name, steps in (("whole", (6,)), ("halves", (3, 6))):
        for number in steps:
            out = (f"--json={tmp_path / name}.jsonl", f"--params-out={tmp_path / name}.safetensors")
            tool(*command(workshop, config, number, f"--save-dir={tmp_path / name}", "--resume", *out))
    logs = [read_log(tmp_path / f"{name}.jsonl") for name in ("whole", "halves")]
    assert [step["step"] for step in logs[1]] == [1, 2, 3, 4, 5, 6]
    assert [step["loss"] for step in logs[0]] == [step["loss"] for step in logs[1]]
    assert (tmp_path / "whole.safetensors").read_bytes() == (tmp_path / "halves.safetensors").read_bytes()

    whole, halves = (read_checkpoint(tmp_path / name / "step-00000006") for name in ("whole", "halves"))
    assert whole.index == halves.index
    assert_equal_tensors(whole.states, halves.states)
    assert_equal_tensors(whole.own, halves.own)
    assert {count for count, trainable in updates(whole).values() if trainable} == {6}
    # The states changed between the halves, so that the comparison says something.
    half = read_checkpoint(tmp_path / "halves" / "step-00000003")
    for key, value in whole.states.items():
        if key[0] in ("exp_avg", "momentum_buffer"):
            assert not value.equal(half.states[key]), key


CONFIGS = {
    "1": Config("gpt", 1, 1, "zero3"),
    "2": Config("gpt", 1, 2, "ddp"),
    "4": Config("gpt", 2, 2, "fcdp", bucket_bytes=1 << 16),
    "4-hsdp": Config("gpt", 2, 2, "hsdp", 2),
    "4-ragged": Config("gpt", 4, 1, "zero2", layout="ragged<8>"),
    "8": Config("gpt", 2, 4, "hpz"),
    "8-owned": Config("gpt", 4, 2, "mics", layout="owned"),
}


@pytest.mark.parametrize(
    ("source", "target"),
    [("1", "4"), ("4", "1"), ("2", "8"), ("8", "4-hsdp"), ("4-hsdp", "2"), ("4-ragged", "8-owned"), ("8-owned", "4")],
)
def test_another_mesh_and_strategy_has_the_same_state(
    workshop: Workshop, tmp_path: Path, source: str, target: str
) -> None:
    def train(name: str, config: Config, *extra: str) -> None:
        files = (f"--save-dir={tmp_path / name}", f"--params-out={tmp_path / name}.safetensors")
        tool(*command(workshop, config, 2, *files, *extra))

    train("source", CONFIGS[source])
    train("target", CONFIGS[target], f"--resume={tmp_path / 'source'}")
    one, other = (read_checkpoint(tmp_path / name / "step-00000002") for name in ("source", "target"))
    assert other.index["world_size"] == CONFIGS[target].world
    assert_equal_tensors(one.states, other.states)
    assert updates(one) == updates(other)
    assert_equal_tensors(*(parameters(tmp_path / f"{name}.safetensors") for name in ("source", "target")))


def test_more_ranks_than_saved(workshop: Workshop, tmp_path: Path) -> None:
    """Buffers that the step changes, and random states: two ranks have their own, two further ones have none."""
    two, four = Config("convnet_bn", 1, 2), Config("convnet_bn", 2, 2)
    tool(*command(workshop, two, 2, f"--save-dir={tmp_path / 'two'}"))
    tool(*command(workshop, four, 2, f"--resume={tmp_path / 'two'}", f"--save-dir={tmp_path / 'four'}"))
    one, other = (read_checkpoint(tmp_path / name / "step-00000002").own for name in ("two", "four"))
    buffers = {name for role, name, _ in other if role == "buffer"}
    assert "bn1.running_mean" in buffers
    for name in buffers:
        for rank in range(4):
            assert other["buffer", name, rank].equal(one["buffer", name, rank % 2]), (name, rank)
    assert not one["buffer", "bn1.running_mean", 0].equal(one["buffer", "bn1.running_mean", 1])
    random = [other["random", "torch", rank] for rank in range(4)]
    assert all(random[rank].equal(one["random", "torch", rank]) for rank in range(2))
    assert not any(random[rank].equal(state) for rank in (2, 3) for state in random[:rank])


def test_other_ranks_go_on_in_the_data(workshop: Workshop, tmp_path: Path) -> None:
    """Four ranks read 12 rows in 3 steps. Two ranks then begin at row 12, as they do after 6 steps of their own."""
    four, two = Config("gpt", 2, 2), Config("gpt", 1, 2)
    tool(*command(workshop, four, 3, f"--save-dir={tmp_path / 'four'}"))
    tool(*command(workshop, two, 4, f"--resume={tmp_path / 'four'}", f"--save-dir={tmp_path / 'two'}"))
    assert read_checkpoint(tmp_path / "two" / "step-00000004").index["job"]["rows"] == 14


def test_another_optimizer_is_refused(workshop: Workshop, tmp_path: Path) -> None:
    tool(*command(workshop, Config("mlp_dropout", 1, 1), 1, f"--save-dir={tmp_path}"))
    with pytest.raises(Exception) as error:
        config = Config("mlp_dropout", 1, 1, optimizer=MOMENTUM)
        tool(*command(workshop, config, 2, f"--resume={tmp_path}"))
    text = str(error.value)
    assert "it lacks momentum_buffer of layers.0.weight, " in text, text
    assert "the step has no exp_avg of layers.0.weight, " in text, text
    assert text.count("error:") == 1, text


FCDP_CKPT = Path(sys.executable).with_name("fcdp-ckpt")


def test_fcdp_ckpt_reads_and_makes_checkpoints_of_the_runtime(workshop: Workshop, tmp_path: Path) -> None:
    four, one = Config("gpt_tied", 2, 2), Config("gpt_tied", 1, 1, "zero3")
    files = (f"--save-dir={tmp_path / 'four'}", f"--params-out={tmp_path / 'four.safetensors'}")
    tool(*command(workshop, four, 2, *files))
    assert "step-00000002" in tool(FCDP_CKPT, "inspect", tmp_path / "four")
    tool(*command(workshop, one, 2, f"--resume={tmp_path / 'four'}", f"--save-dir={tmp_path / 'one'}"))
    tool(FCDP_CKPT, "diff", tmp_path / "four", tmp_path / "one")

    weights, made = tmp_path / "weights.safetensors", tmp_path / "made" / "step-00000002"
    tool(FCDP_CKPT, "convert", tmp_path / "four", weights, "--to=safetensors")
    assert_equal_tensors(parameters(weights), parameters(tmp_path / "four.safetensors"))
    tool(FCDP_CKPT, "convert", weights, made, "--to=fcdp", f"--like={tmp_path / 'four'}")
    out = tmp_path / "again.safetensors"
    tool(*command(workshop, four, 1, f"--resume={made.parent}", f"--params-out={out}"))
    assert_equal_tensors(parameters(out), parameters(weights))


def full_disk_script(run: Path, line: str) -> str:
    """Fills a small file system with checkpoints, then lists what is there and resumes from it."""
    return f"""
        mount -t tmpfs -o size=3m none {shlex.quote(str(run))} || exit 77
        {line}
        code=$?
        ls {shlex.quote(str(run))}
        exit $code
    """


def test_full_disk_leaves_the_last_good_one(workshop: Workshop, tmp_path: Path) -> None:
    config, run = Config("gpt", 1, 2), tmp_path / "run"
    run.mkdir()
    parts = command(workshop, config, 50, f"--save-dir={run}", "--save-every=1")
    line = " ".join(shlex.quote(str(part)) for part in parts)
    resumed = " ".join(shlex.quote(str(part)) for part in command(workshop, config, 1, f"--resume={run}"))
    script = full_disk_script(run, f"{line}; code=$?; {resumed} || exit 78; (exit $code)")
    done = subprocess.run(
        ["unshare", "--mount", "--map-root-user", "bash", "-c", script],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this process may not mount a file system")
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert done.stderr.count("error:") == 1, done.stderr
    assert "the checkpoint cannot be saved" in done.stderr and "No space left on device" in done.stderr, done.stderr
    saved = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("saved ")]
    assert saved and f"resumed from {saved[-1]}" in done.stdout, done.stdout


def test_goes_on_if_an_older_one_cannot_be_removed(workshop: Workshop, tmp_path: Path) -> None:
    config, run = Config("gpt", 1, 2), tmp_path / "run"
    options = (f"--save-dir={run}", "--save-every=1", "--resume")
    tool(*command(workshop, config, 1, *options))
    (run / "step-00000001/mount").mkdir()
    line = " ".join(shlex.quote(str(part)) for part in command(workshop, config, 3, *options, "--keep=1"))
    script = f"mount -t tmpfs none {shlex.quote(str(run))}/step-00000001/mount || exit 77; {line}"
    done = subprocess.run(
        ["unshare", "--mount", "--map-root-user", "bash", "-c", script],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this process may not mount a file system")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert re.search(r"warning: an older checkpoint is still there: .*step-00000001.removed: cannot be removed", done.stdout)
    assert [name for name in folders(run) if "." not in name] == ["step-00000003"]


def test_two_jobs_do_not_save_to_one_folder(workshop: Workshop, tmp_path: Path) -> None:
    config, run = Config("gpt", 1, 2), tmp_path / "run"
    options = (f"--save-dir={run}", "--save-every=1", "--keep=2")
    with started([(command(workshop, config, 1_000_000, *options), environment())]) as (first,):
        deadline = time.monotonic() + 60
        while not (run.exists() and len(folders(run)) > 2):
            assert time.monotonic() < deadline and first.poll() is None
            time.sleep(0.01)
        with pytest.raises(ToolError, match=f"{run}: another job saves its checkpoints in this folder"):
            tool(*command(workshop, config, 1, *options, "--resume"))
        assert first.poll() is None


def test_rank_killed_during_a_save(workshop: Workshop, tmp_path: Path) -> None:
    config, run, log = Config("gpt"), tmp_path / "run", tmp_path / "log.jsonl"
    options = (f"--save-dir={run}", "--save-every=1", "--keep=2", "--resume", f"--json={log}")
    with started([(command(workshop, config, 1_000_000, *options), environment())]) as (launcher,):
        deadline = time.monotonic() + 60
        while not (run.exists() and len(folders(run)) > 2 and folders(run)[-1].endswith(".partial")):
            assert time.monotonic() < deadline and launcher.poll() is None
        children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
        subprocess.run(["kill", "-KILL", children[-1]], check=True)
        _, errors = launcher.communicate(timeout=60)
        assert launcher.returncode == 1 and errors.count("error:") == 1, errors
    complete = [name for name in folders(run) if "." not in name]
    assert complete
    last = read_checkpoint(run / complete[-1]).index["step"]
    tool(*command(workshop, config, last + 2, *options))
    steps = [step["step"] for step in read_log(log)]
    assert steps == list(range(1, last + 3))


def workers_of(agent: int) -> list[int]:
    """Process ids of the fcdp-run processes that a torchrun agent has started."""
    pids = []
    for thread in Path(f"/proc/{agent}/task").iterdir():
        pids += [int(child) for child in (thread / "children").read_text().split()]
    return [pid for pid in pids if Path(f"/proc/{pid}/comm").read_text().strip() == "fcdp-run"]


def test_torchrun_restarts_a_killed_rank(workshop: Workshop, tmp_path: Path) -> None:
    config, steps, every = Config("gpt", 1, 2), 200, 20
    whole, run, log = tmp_path / "whole.jsonl", tmp_path / "run", tmp_path / "log.jsonl"
    tool(*command(workshop, config, steps, f"--json={whole}"))
    options = (f"--save-dir={run}", f"--save-every={every}", "--keep=2", "--resume", f"--json={log}")
    torchrun = [
        Path(sys.executable).with_name("torchrun"),
        *("--no-python", "--nnodes=1", "--nproc-per-node=2", "--max-restarts=2", "--monitor-interval=0.5"),
        *("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}"),
    ]
    line = [*torchrun, *command(workshop, config, steps, *options)]
    # In the middle between two saves, before and after the first restart.
    deaths = [every * 5 // 2, every * 13 // 2]
    printed = []
    with started([(line, environment())]) as (agent,):
        assert agent.stdout is not None
        for text in agent.stdout:
            printed.append(text)
            if deaths and text.startswith(f"step {deaths[0]} "):
                deaths.pop(0)
                subprocess.run(["kill", "-KILL", str(workers_of(agent.pid)[1])], check=True)
        _, errors = agent.communicate(timeout=120)
        assert agent.returncode == 0, errors
    losses = [[step["loss"] for step in read_log(path)] for path in (whole, log)]
    assert losses[0] == losses[1]
    ran = sum(text.startswith("step ") for text in printed)
    assert sum(text.startswith("resumed from ") for text in printed) == 2, printed
    # Steps after the checkpoints ran twice.
    assert steps < ran <= steps + 2 * every


def test_sigterm_to_torchrun_saves(workshop: Workshop, tmp_path: Path) -> None:
    config, run = Config("gpt", 1, 2), tmp_path / "run"
    line = [
        *(Path(sys.executable).with_name("torchrun"), "--no-python", "--nnodes=1", "--nproc-per-node=2"),
        *("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}"),
        *command(workshop, config, 1_000_000, f"--save-dir={run}"),
    ]
    with started([(line, environment())]) as (agent,):
        assert agent.stdout is not None
        for text in agent.stdout:
            if text.startswith("step 3 "):
                agent.send_signal(signal.SIGTERM)
                break
        printed, _ = agent.communicate(timeout=60)
    assert "stopped by a signal after step" in printed
    (name,) = folders(run)
    assert read_checkpoint(run / name).index["step"] >= 3
