# SPDX-License-Identifier: Apache-2.0
"""Jobs for GPUs on devices that are not there (test/emulated): losses and parameters are those of the CPU, whatever the
order in which streams work, and a missing wait shows."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

import test_auto
import test_shapes
import test_states_in_files
from harness import (
    ADAMW,
    BIN,
    LION,
    LONG,
    Config,
    Run,
    ToolError,
    Workshop,
    assert_bit_equal,
    compile_command,
    environment,
    read_log,
    run_command,
    tool,
)
from missing_waits import (
    AHEAD,
    FEW_ORDERS,
    LATE,
    MUTATED,
    PROGRAM,
    SCRATCH,
    SHUFFLED,
    STEPS,
    Waits,
    compile_for_gpus,
    run_on,
)
from models import build

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="fcdp is built without the CUDA backend, or with a libtorch for CUDA")

MUON = f"muon,lr=1e-2,weight_decay=0.5+{ADAMW}"


def assert_as_on_the_cpu(workshop: Workshop, config: Config, folder: Path, order: str, *options: str, **variables: str) -> Run:
    step = compile_for_gpus(workshop, config, folder)
    run = run_on(step, workshop, config, folder, order, *options, **variables)
    assert_bit_equal(run, workshop.run(config, STEPS))
    return run


@pytest.mark.parametrize(
    ("strategy", "micro_batches", "order"),
    [
        ("zero3", 1, LATE),
        ("zero3", 4, SHUFFLED),
        ("fcdp", 1, SHUFFLED),
        ("fcdp", 4, AHEAD),
        ("hpz", 4, LATE),
        ("mics", 4, SHUFFLED),
        ("zero1", 4, AHEAD),
        ("zero2", 4, LATE),
        ("hsdp", 1, AHEAD),
        ("ddp", 4, SHUFFLED),
    ],
)
def test_strategies(workshop: Workshop, tmp_path: Path, strategy: str, micro_batches: int, order: str) -> None:
    assert_as_on_the_cpu(workshop, Config("gpt", strategy=strategy, micro_batches=micro_batches), tmp_path, order)


@pytest.mark.parametrize(
    ("config", "order"),
    [
        (Config("rotary"), LATE),
        (Config("hf_gpt2_dropout", micro_batches=2), SHUFFLED),
        (Config("gpt_bf16", master="f32", optimizer=LION), AHEAD),
        (Config("gpt_autocast", reduce_dtype="bf16"), LATE),
        (Config("gpt_f16", loss_scale=True, loss_chunk="16"), SHUFFLED),
        (Config("gpt_distilled", loss_chunk="16"), AHEAD),
        (Config("convnet_bn"), LATE),
        # Its results need more than was planned, so the arena is extended.
        (Config("mlp_dropout", optimizer=LION), LATE),
        (Config("gpt", clip_norm=0.5, micro_batches=2), AHEAD),
        (Config("gpt", strategy="zero3", collectives="flat"), SHUFFLED),
        (Config("gpt", micro_batches=4, accumulate="node_host"), SHUFFLED),
        (Config("gpt", strategy="hsdp", outer="2"), LATE),
        (Config("gpt", micro_batches=2, optimizer=MUON), SHUFFLED),
        (Config("gpt_bf16", strategy="zero2", micro_batches=4, optimizer=MUON, master="f32", clip_norm=0.05), LATE),
        (Config("gpt", strategy="mics", layout="owned", optimizer=MUON), AHEAD),
        (Config("gpt_bf16", master="f32", micro_batches=2, states="host,piece=4096", clip_norm=0.5), LATE),
        # Updated in the backward pass.
        (Config("gpt", strategy="zero3", states="host,piece=4096"), SHUFFLED),
        (Config("gpt_bf16", master="f32", micro_batches=2, states="host,piece=4096", update="host", clip_norm=0.5), LATE),
        (Config("gpt", strategy="zero3", states="host,piece=4096", update="host"), SHUFFLED),
        (Config("gpt_f16", loss_scale=True, states="host,piece=4096", update="host", optimizer=LION), AHEAD),
        (Config("gpt_bf16", master="f32", micro_batches=2, states="file,piece=80000", clip_norm=0.5), LATE),
        (Config("gpt", strategy="zero3", states="file,piece=20000"), SHUFFLED),
        (Config("gpt", micro_batches=2, states="file", optimizer=MUON), AHEAD),
        (Config("gpt", micro_batches=2, states="host,piece=4096"), LATE),
        (Config("gpt", micro_batches=2, reduce_wire="int8"), SHUFFLED),
        (Config("gpt_bf16", nodes=4, local=1, strategy="zero3", master="f32", reduce_wire="int4"), LATE),
        (Config("gpt", strategy="hsdp", outer="2,wire=int8"), AHEAD),
        (Config("gpt", micro_batches=2, activations="host"), AHEAD),
        (Config("gpt", strategy="zero3", activations="host"), LATE),
    ],
    ids=lambda value: value.name if isinstance(value, Config) else value,
)
def test_models_and_options(workshop: Workshop, tmp_path: Path, config: Config, order: str) -> None:
    assert_as_on_the_cpu(workshop, config, tmp_path, order)


@pytest.mark.parametrize(
    ("config", "order"),
    zip(test_auto.CASES[:3], (LATE, SHUFFLED, AHEAD)),
    ids=lambda value: value.name if isinstance(value, Config) else value,
)
def test_auto_within_a_budget(workshop: Workshop, tmp_path: Path, config: Config, order: str) -> None:
    assert_as_on_the_cpu(workshop, test_auto.within_a_budget(workshop, config, tmp_path), tmp_path, order)


def test_cudnn_attention(workshop: Workshop, tmp_path: Path) -> None:
    config = Config("gpt_bf16", master="f32", micro_batches=2)
    step = compile_for_gpus(workshop, config, tmp_path, "--compute-capability=9.0")
    assert "_scaled_dot_product_cudnn_attention_backward" in tool(BIN / "fcdp-compile", step, "--emit=plan-json")
    expected = workshop.run(config, STEPS)
    for order, graphs in ((SHUFFLED, "off"), (LATE, "auto")):
        assert_bit_equal(run_on(step, workshop, config, tmp_path, order, f"--cuda-graphs={graphs}"), expected)
    # libtorch would not refuse it.
    with pytest.raises(ToolError, match="cudnn_attention_backward' has no deterministic version; compile the step with --compute-capability=8.0"):
        run_on(step, workshop, config, tmp_path, LATE, "--deterministic")


@pytest.mark.parametrize(
    "config",
    [
        Config("hf_llama", micro_batches=2),
        Config("peft_lora", micro_batches=2),
        Config("normed"),
        test_auto.CASES[3],
        # Grouped products in float32, and a weighted loss of the router.
        Config("hf_mixtral", 1, 2, micro_batches=2, loss_weight="attention_mask"),
    ],
)
def test_fused_norms(workshop: Workshop, tmp_path: Path, config: Config) -> None:
    """CUDA's operator for RMS norms adds the parts of a gradient in another order than the CPU's operators."""
    if config.strategy == "auto":
        config = test_auto.within_a_budget(workshop, config, tmp_path)
    step = compile_for_gpus(workshop, config, tmp_path)
    assert "aten::_fused_rms_norm_backward" in tool(BIN / "fcdp-compile", step, "--emit=plan-json")
    late, shuffled = (run_on(step, workshop, config, tmp_path, order) for order in (LATE, SHUFFLED))
    assert_bit_equal(late, shuffled)
    assert late.losses == pytest.approx(workshop.run(config, STEPS).losses, rel=1e-6)


def test_packed_rows(workshop: Workshop, tmp_path: Path) -> None:
    """Documents train by CUDA's kernel for sequences as they do under their mask, the only way for older GPUs."""
    config = Config("packed", micro_batches=2, optimizer="sgd,lr=4", master="f32")

    def run(name: str, capability: str, order: str, *options: str) -> Run:
        folder = tmp_path / name
        folder.mkdir()
        step = compile_for_gpus(workshop, config, folder, f"--compute-capability={capability}")
        plan = tool(BIN / "fcdp-compile", step, "--emit=plan-json")
        assert ("aten::_flash_attention_backward" in plan) == (capability == "8.0")
        return run_on(step, workshop, config, folder, order, *options)

    late, shuffled = run("late", "8.0", LATE), run("graphs", "8.0", SHUFFLED, "--cuda-graphs=auto")
    assert_bit_equal(late, shuffled)
    masked = run("masked", "7.5", AHEAD)
    assert late.losses == pytest.approx(masked.losses, rel=1e-5)
    initial = dict(build(config.model).named_parameters())
    ours, expected = (load_file(each.parameters) for each in (late, masked))
    for name, value in expected.items():
        # If one boundary moves, the weights of attention differ by 0.2 of their way.
        way = (value.double() - initial[name].detach().double()).norm()
        assert (ours[name].double() - value.double()).norm() < 0.02 * way, name


SHAPES = Config("gpt", micro_batches=2)


@pytest.fixture(scope="session")
def step_of_shapes(workshop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Path:
    step = tmp_path_factory.mktemp("shapes") / "cuda.so"
    first, *others = test_shapes.padded(workshop, SHAPES).archives
    tool(*compile_command(SHAPES, first, step), *others, "--target=cuda")
    return step


def run_shapes(workshop: Workshop, step: Path, inputs: dict[str, Path], folder: Path, **variables: str) -> Run:
    log, out = folder / "log.jsonl", folder / "out.safetensors"
    options = (f"--pad=labels={test_shapes.IGNORED}", f"--json={log}", f"--params-out={out}")
    weights = test_shapes.padded(workshop, SHAPES).archives[0]
    command = run_command(step, weights, inputs, test_shapes.STEPS, "--nodes=2", "--ranks-per-node=2", *options)
    tool(PROGRAM, *command[1:], env=environment(variables), timeout=300)
    return Run(read_log(log), out)


@pytest.mark.parametrize("order", [LATE, AHEAD])
def test_steps_of_several_shapes(workshop: Workshop, step_of_shapes: Path, tmp_path: Path, order: str) -> None:
    inputs = test_shapes.padded(workshop, SHAPES).inputs
    run = run_shapes(workshop, step_of_shapes, inputs, tmp_path, FCDP_FAKE_ORDER=order)
    on_the_cpu = tmp_path / "cpu"
    on_the_cpu.mkdir()
    assert_bit_equal(run, test_shapes.run_shapes(workshop, SHAPES, on_the_cpu))


def test_a_change_of_shape(workshop: Workshop, step_of_shapes: Path, tmp_path: Path) -> None:
    """A step begins on all streams when the one before has ended if that was of another shape.

    The same steps in another order, with fewer changes, have fewer waits.
    """
    waits, changes = [], []
    for chosen in (range(test_shapes.STEPS), np.argsort(test_shapes.CHOSEN, stable=True)):
        variants = [test_shapes.CHOSEN[step] for step in chosen]
        changes.append(sum(one != other for one, other in zip(variants, variants[1:])))
        folder = tmp_path / f"{changes[-1]} changes"
        calls = folder / "calls"
        calls.mkdir(parents=True)
        inputs = {}
        for name, path in test_shapes.padded(workshop, SHAPES).inputs.items():
            rows = np.load(path)
            inputs[name] = folder / path.name
            np.save(inputs[name], rows.reshape(test_shapes.STEPS, -1, *rows.shape[1:])[chosen].reshape(rows.shape))
        run_shapes(workshop, step_of_shapes, inputs, folder, FCDP_FAKE_CALLS=str(calls))
        waits.append([counts["cudaStreamWaitEvent"] for counts in count_calls(calls)])
    assert changes[0] > changes[1]
    # Streams other than the one for computing.
    more = 7 * (changes[0] - changes[1])
    assert sum(waits[0]) - sum(waits[1]) == SHAPES.world * more, (waits, changes)


@pytest.mark.parametrize(
    ("config", "order"),
    [
        (Config("gpt", micro_batches=2), LATE),
        (Config("gpt", micro_batches=2), SHUFFLED),
        (Config("gpt", micro_batches=2, states="host,piece=4096", update="host"), LATE),
    ],
    ids=lambda value: value.name if isinstance(value, Config) else value,
)
def test_graphs(workshop: Workshop, tmp_path: Path, config: Config, order: str) -> None:
    calls = tmp_path / "calls"
    calls.mkdir()
    assert_as_on_the_cpu(workshop, config, tmp_path, order, "--cuda-graphs=auto", FCDP_FAKE_CALLS=str(calls))
    ranks = [counts for counts in count_calls(calls) if counts["cudaGraphLaunch"]]
    assert len(ranks) == config.world
    for counts in ranks:
        # The second step captures the graphs, the others launch them.
        assert counts["cudaGraphLaunch"] == (STEPS - 1) * counts["cudaGraphInstantiateWithFlags"]


def count_calls(folder: Path) -> Iterator[Counter[str]]:
    return (Counter(file.read_text().split("\n")) for file in folder.iterdir())


def test_a_rank_is_set_up_before_its_first_step(workshop: Workshop, tmp_path: Path) -> None:
    """Memory is that of NCCL, windows are registered, and NCCL connects for the planned sizes."""
    calls = tmp_path / "calls"
    calls.mkdir()
    config = Config("gpt", micro_batches=2)
    assert_as_on_the_cpu(workshop, config, tmp_path, LATE, FCDP_FAKE_CALLS=str(calls))
    plan = json.loads(tool(BIN / "fcdp-compile", tmp_path / "cuda.so", "--emit=plan-json"))
    sizes = {(body["axis"], body["in"]["bytes"]) for body in bodies_of(plan, "all_gather")}
    groups = len({axis for axis, _ in sizes}) + len({body["axis"] for body in bodies_of(plan, "reduce_scatter")})
    ranks = [names for file in calls.iterdir() if "ncclAllGather" in (names := file.read_text().split("\n"))]
    assert len(ranks) == config.world
    for names in ranks:
        before = Counter(names[: names.index("cudaEventRecord")])
        assert before["ncclMemAlloc"] == before["cudaHostRegister"] == 1
        assert before["ncclCommWindowRegister"] == before["ncclCommInitRankConfig"] == groups
        assert before["ncclAllGather"] == len(sizes)
        assert before["ncclSend"] and before["ncclSend"] == before["ncclRecv"]


def bodies_of(plan: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [op["body"] for op in plan["ops"] if op["body_type"] == kind]


@pytest.mark.parametrize("packing", ["nf4", "int8"])
def test_packed_bases(workshop: Workshop, tmp_path: Path, packing: str) -> None:
    """Kernels unpack matrices on the stream of the products that read them. Fused norms differ from the CPU's."""
    config, option = Config("peft_lora", micro_batches=2), f"--frozen={packing}"
    model, step, log = workshop.model(config.model), tmp_path / "cpu.so", tmp_path / "log.jsonl"
    tool(*compile_command(config, model.archive, step), option)
    mesh = (f"--nodes={config.nodes}", f"--ranks-per-node={config.local}")
    tool(*run_command(step, model.archive, model.inputs, STEPS, *mesh, f"--json={log}"))
    cuda = compile_for_gpus(workshop, config, tmp_path, option)
    late = run_on(cuda, workshop, config, tmp_path, LATE)
    assert_bit_equal(late, run_on(cuda, workshop, config, tmp_path, SHUFFLED, "--cuda-graphs=auto"))
    assert late.losses == pytest.approx([line["loss"] for line in read_log(log)], rel=1e-6)


def test_reductions_by_nccl(workshop: Workshop, tmp_path: Path) -> None:
    """Sums of two numbers are the same in any order."""
    calls = tmp_path / "calls"
    calls.mkdir()
    config = Config("gpt", micro_batches=2)
    assert_as_on_the_cpu(workshop, config, tmp_path, SHUFFLED, "--reductions-by=nccl", FCDP_FAKE_CALLS=str(calls))
    assert sum(counts["ncclReduceScatter"] > 0 for counts in count_calls(calls)) == config.world


@pytest.mark.parametrize("order", [pytest.param(LATE, marks=LONG), SHUFFLED])
def test_traces_and_profiles(workshop: Workshop, tmp_path: Path, order: str) -> None:
    files = tmp_path / "trace.json", tmp_path / "profile.json"
    config = Config("gpt", micro_batches=2)
    assert_as_on_the_cpu(workshop, config, tmp_path, order, f"--trace={files[0]}", f"--profile={files[1]}")
    names = {event["name"] for event in json.loads(files[0].read_text())["traceEvents"]}
    assert any("all_gather" in name for name in names) and any("addmm" in name for name in names)
    assert json.loads(files[1].read_text())


def test_profiles_of_the_first_steps(workshop: Workshop, tmp_path: Path) -> None:
    """Later steps are issued ahead and in graphs, as those of a job without a profile."""
    options = (f"--profile={tmp_path / 'profile.json'}", "--profile-steps=1", "--cuda-graphs=auto")
    calls = tmp_path / "calls"
    calls.mkdir()
    assert_as_on_the_cpu(workshop, Config("gpt", micro_batches=2), tmp_path, LATE, *options, FCDP_FAKE_CALLS=str(calls))
    assert json.loads((tmp_path / "profile.json").read_text())["steps"] == 1
    assert all(counts["cudaGraphLaunch"] > 0 for counts in count_calls(calls))


@pytest.mark.parametrize("states", ["", "file,piece=20000"])
def test_checkpoints(workshop: Workshop, tmp_path: Path, states: str) -> None:
    """A job that goes on from a checkpoint has the numbers of one that was not interrupted, with the device's random
    state."""
    config = Config("hf_gpt2_dropout", states=states)
    step = compile_for_gpus(workshop, config, tmp_path)
    random = {"FCDP_FAKE_RANDOM": "generator"}
    whole = run_on(step, workshop, config, tmp_path, SHUFFLED, **random)
    parameters = whole.parameters.read_bytes()
    model, log, out = workshop.model(config.model), tmp_path / "log.jsonl", tmp_path / "out.safetensors"
    mesh = ("--nodes=2", "--ranks-per-node=2", f"--json={log}", f"--params-out={out}")
    folders = [f"--save-dir={tmp_path / 'checkpoints'}", *([f"--state-path={workshop.state_folder}"] if states else [])]
    env = environment({"FCDP_FAKE_ORDER": SHUFFLED, **random})
    for steps, options in ((2, ["--save-every=2"]), (STEPS, ["--resume"])):
        command = run_command(step, model.archive, model.inputs, steps, *mesh, *folders, *options)
        tool(PROGRAM, *command[1:], env=env)
    assert read_log(log)[-1]["loss"] == whole.losses[-1]
    assert out.read_bytes() == parameters


def test_copies_to_files_pass_through_a_window(workshop: Workshop, tmp_path: Path) -> None:
    config = Config("gpt", strategy="zero3", states="file,piece=60000")
    plan = json.loads(tool(BIN / "fcdp-compile", compile_for_gpus(workshop, config, tmp_path), "--emit=plan-json"))
    window = plan["file_window"]
    # Two parts for each direction, a quarter of the largest piece in whole blocks.
    largest = max(body["out"]["bytes"] for body in bodies_of(plan, "state_load"))
    assert window["bytes"] == 4 * -(-largest // (4 * 4096)) * 4096 > 4 * 4096
    assert window["local_stride"] % 4096 == window["offset"] % 4096 == 0
    assert plan["host_bytes"] == config.local * window["local_stride"]
    # It is the end of each rank's part.
    assert window["offset"] + window["bytes"] == window["local_stride"]


def test_a_disk_that_fails_ends_the_job_by_name(workshop: Workshop, tmp_path: Path) -> None:
    config = Config("mlp_dropout", 1, 1, "zero3", states="file", optimizer="adamw,lr=1e-3")
    step, model = compile_for_gpus(workshop, config, tmp_path), workshop.model(config.model)
    path = f"--state-path={workshop.state_folder}"
    command = run_command(step, model.archive, model.inputs, 1_000_000, path)
    error = test_states_in_files.fail_writes([PROGRAM, *command[1:]])
    assert f"{workshop.state_folder}: cannot be written with states of the optimizer: File too large" in error


# --- missing waits ---


def test_temporary_memory_overwrites_nothing_in_use(workshop: Workshop, tmp_path: Path) -> None:
    assert_as_on_the_cpu(workshop, MUTATED, tmp_path, SHUFFLED, **SCRATCH)


# Some of the waits of the plan. missing_waits.py, as a program, runs all.
@pytest.mark.parametrize("number", [8, 47, 104, *(pytest.param(number, marks=LONG) for number in (14, 40, 67, 80, 146))])
def test_a_missing_wait_gives_other_numbers(workshop: Workshop, tmp_path: Path, number: int) -> None:
    """The prover refuses the plan without the wait, and a run of it has other losses or parameters in some order."""
    waits = Waits(workshop, tmp_path)
    assert waits.is_refused(number, tmp_path)
    assert waits.find_order(waits.without(number, tmp_path), tmp_path, FEW_ORDERS)
