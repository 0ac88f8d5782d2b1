# SPDX-License-Identifier: Apache-2.0
"""Nodes that train by themselves and are synchronized by outer steps only, beside plain PyTorch that does the same."""

import copy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import fcdp
from fcdp.optimizers import optimizer_factory
from harness import (
    BIN,
    Config,
    ToolError,
    Workshop,
    assert_bit_equal,
    compile_command,
    parameters,
    read_log,
    read_plan,
    relative_error,
    run_command,
    tool,
)
from models import build

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS = 8

AVERAGED = Config("gpt", strategy="hsdp", outer="1,lr=1,momentum=0,dtype=f32")
DILOCO = Config("gpt", strategy="hsdp", outer="3,dtype=f32")
OVERLAPPED = Config("gpt", strategy="hsdp", outer="3,dtype=f32,overlap=on")


@dataclass(frozen=True)
class Outer:
    """The settings of --outer, as the tests spell them."""

    every: int
    lr: float
    momentum: float
    nesterov: bool
    fragments: int
    overlap: bool

    @staticmethod
    def of(config: Config) -> "Outer":
        first, *settings = config.outer.split(",")
        given = dict(setting.split("=") for setting in settings)
        momentum = float(given.get("momentum", 0.9))
        nesterov = given.get("optimizer", "nesterov") == "nesterov" and momentum != 0
        fragments, overlap = int(given.get("fragments", 1)), given.get("overlap") == "on"
        return Outer(int(first), float(given.get("lr", 0.7)), momentum, nesterov, fragments, overlap)

    def due(self, step: int) -> list[int]:
        """The fragments that are synchronized after that step, counted from 1."""
        since = [step - p * self.every // self.fragments for p in range(self.fragments)]
        return [p for p, steps in enumerate(since) if step > 0 and steps >= 0 and steps % self.every == 0]


def fragments(plan: dict) -> dict[int, list[str]]:
    """The parameters that the outer updates of each fragment synchronize."""
    of: dict[int, list[str]] = {}
    for function in plan["functions"]:
        for op in plan["ops"][function["first"] : function["end"]]:
            if op["kind"] == "outer_update":
                members = [p["names"][0] for p in plan["parameters"] if p["bucket"] == op["bucket"]]
                of.setdefault(function["variant"], []).extend(members)
    return of



class Node:
    """A node's own copy of the model, its optimizer, and the rows of its ranks."""

    def __init__(self, model: nn.Module, config: Config, node: int):
        self.model = copy.deepcopy(model)
        self.named = dict(self.model.named_parameters())
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.stepper = optimizer_factory(config.optimizer)(self.parameters)
        self.config = config
        ranks = range(node * config.local, (node + 1) * config.local)
        self.rows = [k * config.world + rank for k in range(config.micro_batches) for rank in ranks]

    def backward(self, batches: list) -> float:
        total = 0.0
        self.stepper.zero_grad()
        for row in self.rows:
            loss = self.model(*fcdp.call.make_call(self.model, batches[row], None).values)
            loss.backward()
            total += loss.item()
        for parameter in self.parameters:
            parameter.grad /= len(self.rows)
        if self.config.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.config.clip_norm)
        return total


class Synchronizer:
    """The outer parameters, of which all nodes have a copy, and their optimizer."""

    def __init__(self, model: nn.Module, nodes: list[Node], outer: Outer, of: dict[int, list[str]]):
        self.named = dict(model.named_parameters())
        self.nodes = nodes
        self.of = of
        settings = {"lr": outer.lr, "momentum": outer.momentum, "nesterov": outer.nesterov}
        self.steppers = {p: torch.optim.SGD([self.named[name] for name in names], **settings) for p, names in of.items()}

    def update(self, fragment: int) -> None:
        for name in self.of[fragment]:
            parameter = self.named[name]
            copies = [node.named[name].detach() for node in self.nodes]
            parameter.grad = sum(parameter.detach() - own for own in copies) / len(copies)
        self.steppers[fragment].step()
        for name in self.of[fragment]:
            for node in self.nodes:
                node.named[name].data.copy_(self.named[name].detach())


def diloco(workshop: Workshop, config: Config, steps: int) -> tuple[list[float], list[torch.Tensor]]:
    """The loss of each step over all ranks, and the parameters of all nodes' model after the last outer step."""
    outer = Outer.of(config)
    data = fcdp.batches_from_npy(workshop.model(config.model).inputs, config.world, config.micro_batches)
    model = build(config.model)
    nodes = [Node(model, config, node) for node in range(config.nodes)]
    synchronizer = Synchronizer(model, nodes, outer, fragments(read_plan(workshop.step(config))))
    losses = []
    for step in range(1, steps + 1):
        batches = data(step - 1)
        losses.append(sum(node.backward(batches) for node in nodes) / (config.world * config.micro_batches))
        # With overlap, gradients of the parameters from before are applied after an outer update.
        for fragment in outer.due(step - 1) if outer.overlap else []:
            synchronizer.update(fragment)
        for node in nodes:
            node.stepper.step()
        for fragment in [] if outer.overlap else outer.due(step):
            synchronizer.update(fragment)
    return losses, [p.detach() for p in model.parameters() if p.requires_grad]


CONFIGS = [
    AVERAGED,
    DILOCO,
    replace(DILOCO, outer="2,optimizer=sgd,lr=0.5,momentum=0.3,dtype=f32"),
    replace(DILOCO, micro_batches=3),
    replace(DILOCO, strategy="mics", micro_batches=2),
    replace(DILOCO, micro_batches=2, accumulate="full"),
    replace(DILOCO, clip_norm=0.5),
    replace(DILOCO, nodes=4, local=1),
    replace(DILOCO, nodes=3, local=2, optimizer="sgd,lr=0.1,momentum=0.9"),
    replace(DILOCO, outer="4,fragments=2,dtype=f32"),
    OVERLAPPED,
    replace(OVERLAPPED, micro_batches=3),
    replace(OVERLAPPED, outer="4,fragments=2,dtype=f32,overlap=on"),
    replace(OVERLAPPED, outer="4,fragments=2,dtype=f32,overlap=on", micro_batches=3, clip_norm=0.5),
    replace(OVERLAPPED, outer="1,dtype=f32,overlap=on", micro_batches=2, accumulate="full"),
    replace(OVERLAPPED, strategy="mics", micro_batches=2),
    replace(OVERLAPPED, nodes=4, local=1),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_losses_are_those_of_pytorch(workshop: Workshop, config: Config) -> None:
    expected, _ = diloco(workshop, config, STEPS)
    assert relative_error(workshop.run(config, STEPS).losses, expected) < 1e-5


@pytest.mark.parametrize("config", [AVERAGED, replace(DILOCO, outer="4,dtype=f32")], ids=lambda config: config.name)
def test_parameters_behind_an_outer_step_are_those_of_pytorch(workshop: Workshop, config: Config) -> None:
    _, expected = diloco(workshop, config, STEPS)
    trained = parameters(workshop.run(config, STEPS).parameters)
    names = [name for name, p in build(config.model).named_parameters() if p.requires_grad]
    for name, value in zip(names, expected, strict=True):
        torch.testing.assert_close(trained[name], value, rtol=1e-4, atol=1e-6)


def test_parameters_between_outer_steps_are_the_mean_of_the_nodes(workshop: Workshop) -> None:
    """A job that has run two of three steps to the next outer step writes what averaging would make of its nodes."""
    between = workshop.run(replace(DILOCO, outer="6,dtype=f32"), 5)
    averaged = workshop.run(replace(DILOCO, outer="5,lr=1,momentum=0,dtype=f32"), 5)
    one, other = parameters(between.parameters), parameters(averaged.parameters)
    for name, value in one.items():
        torch.testing.assert_close(value, other[name], rtol=1e-5, atol=1e-7)


def test_nothing_crosses_between_nodes_but_in_outer_steps(workshop: Workshop) -> None:
    config = replace(DILOCO, micro_batches=2)
    plan = read_plan(workshop.step(config))
    outer = {f["variant"]: f["expected"]["inter_bytes"] for f in plan["functions"] if f["role"] == "outer_update"}
    # Each of a node's ranks sends its part of the sum to each other node, and the sum of its own part.
    part = sum(bucket["elements"] // config.world for bucket in plan["buckets"] if bucket.get("trainable"))
    assert outer == {0: config.local * (config.nodes - 1) * part * (4 + 4)}
    assert [step.inter for step in workshop.run(config, STEPS).traffic] == [0, 0, outer[0], 0, 0, outer[0], 0, 0]


def test_fragments_take_turns(workshop: Workshop) -> None:
    config = replace(DILOCO, outer="4,fragments=2,dtype=f32")
    plan = read_plan(workshop.step(config))
    of = {f["variant"]: f["expected"]["inter_bytes"] for f in plan["functions"] if f["role"] == "outer_update"}
    assert set(of) == {0, 1} and all(of.values())
    # Fragment 1 follows fragment 0 after half of the steps.
    sent = [step.inter for step in workshop.run(config, 10).traffic]
    assert sent == [0, of[1], 0, of[0], 0, of[1], 0, of[0], 0, of[1]]
    whole = workshop.run(replace(DILOCO, outer="4,dtype=f32"), 10)
    assert sum(of.values()) == max(step.inter for step in whole.traffic)
    assert relative_error(workshop.run(config, 10).losses, whole.losses) < 0.05


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_outer_updates_overlap_with_the_step_behind(workshop: Workshop, micro_batches: int) -> None:
    config = replace(OVERLAPPED, outer="4,fragments=2,dtype=f32,overlap=on", micro_batches=micro_batches)
    plan = read_plan(workshop.step(config))
    role = "only_outer_microbatch" if micro_batches == 1 else "last_outer_microbatch"
    of = {f["variant"]: f["expected"]["inter_bytes"] for f in plan["functions"] if f["role"] == role}
    assert set(of) == {0, 1} and all(of.values())
    assert not [f for f in plan["functions"] if f["role"] == "outer_update"]
    run = workshop.run(config, 10)
    assert [step.inter for step in run.traffic] == [0, 0, of[1], 0, of[0], 0, of[1], 0, of[0], 0]
    behind = workshop.run(replace(config, outer="4,fragments=2,dtype=f32"), 10)
    assert sum(of.values()) == behind.traffic[1].inter + behind.traffic[3].inter
    # Step 3 is the first one that computes with other parameters.
    assert run.losses[:2] == behind.losses[:2] and run.losses[2] != behind.losses[2]
    assert relative_error(run.losses, behind.losses) < 0.05


@pytest.mark.parametrize("wire", ["raw", "coded", "int8", "int4"])
def test_narrow_wires_send_less_and_hardly_change_losses(workshop: Workshop, wire: str) -> None:
    config = replace(DILOCO, outer=f"3,wire={wire}")
    narrow, plain = workshop.run(config, STEPS), workshop.run(DILOCO, STEPS)
    assert relative_error(narrow.losses, plain.losses) < (0.02 if wire == "int4" else 0.005)
    most = {"raw": 0.5, "coded": 0.5, "int8": 0.4, "int4": 0.35}[wire]
    assert sum(step.inter for step in narrow.traffic) <= most * sum(step.inter for step in plain.traffic)
    if wire == "coded":
        assert narrow.losses == workshop.run(replace(config, outer="3,wire=raw"), STEPS).losses


def test_short_types_with_masters_are_synchronized_in_their_masters(workshop: Workshop) -> None:
    config = Config("gpt_bf16", strategy="hsdp", master="f32", optimizer="adamw,lr=1e-4,eps=1e-3", outer="3")
    exact = replace(config, outer="", strategy="hsdp")
    assert relative_error(workshop.run(config, STEPS).losses, workshop.run(exact, STEPS).losses) < 0.02


REPEATED = [DILOCO, replace(DILOCO, strategy="mics", micro_batches=2), replace(OVERLAPPED, micro_batches=2)]


@pytest.mark.parametrize("config", REPEATED, ids=lambda config: config.name)
def test_runs_repeat_bit_for_bit(workshop: Workshop, config: Config) -> None:
    again = workshop.run_object(workshop.step(config), config, STEPS, f"{config.name}-again")
    assert_bit_equal(again, workshop.run(config, STEPS))


RESUMED = [
    DILOCO,
    replace(DILOCO, outer="4,fragments=2,wire=int8"),
    Config("gpt_bf16", strategy="hsdp", master="f32", outer="3"),
    replace(DILOCO, optimizer="adamw8bit,lr=1e-3,eps=1e-3"),
    # One step before an outer update, and in front of the micro-batch that has it.
    replace(OVERLAPPED, micro_batches=2),
    replace(OVERLAPPED, outer="5,wire=int8,overlap=on"),
]


def saved_run(workshop: Workshop, config: Config, steps: int, folder: Path) -> Path:
    model, saved = workshop.model(config.model), folder / "saved"
    tool(*run_command(workshop.step(config), model.archive, model.inputs, steps, f"--save-dir={saved}"))
    return saved


def resumed_run(workshop: Workshop, config: Config, steps: int, saved: Path, folder: Path) -> tuple[str, list[float], Path]:
    model, log, out = workshop.model(config.model), folder / "log.jsonl", folder / "out.safetensors"
    extra = (f"--resume={saved}", f"--json={log}", f"--params-out={out}")
    said = tool(*run_command(workshop.step(config), model.archive, model.inputs, steps, *extra))
    return said, [line["loss"] for line in read_log(log) if "loss" in line], out


@pytest.mark.parametrize("config", RESUMED, ids=lambda config: config.name)
def test_a_job_that_resumes_between_outer_steps_goes_on_bit_for_bit(
    workshop: Workshop, config: Config, tmp_path: Path
) -> None:
    saved = saved_run(workshop, config, 5, tmp_path)
    said, losses, out = resumed_run(workshop, config, STEPS, saved, tmp_path)
    whole = workshop.run(config, STEPS)
    assert "outer" not in said.replace(str(tmp_path), "")
    assert losses == whole.losses[5:]
    assert out.read_bytes() == whole.parameters.read_bytes()


def test_other_nodes_go_on_from_the_outer_parameters(workshop: Workshop, tmp_path: Path) -> None:
    saved = saved_run(workshop, DILOCO, 5, tmp_path)
    for config in (replace(DILOCO, nodes=4, local=1), replace(DILOCO, outer=""), replace(DILOCO, outer="", strategy="fcdp")):
        said, losses, _ = resumed_run(workshop, config, STEPS, saved, tmp_path)
        assert "goes on from their common outer parameters" in said
        assert np.isfinite(losses).all()
        # The outer parameters of the last outer step, after step 3.
        assert abs(losses[0] - workshop.run(DILOCO, STEPS).losses[5]) < 0.05


def test_exact_training_may_go_on_with_outer_steps(workshop: Workshop, tmp_path: Path) -> None:
    exact = replace(DILOCO, outer="")
    saved = saved_run(workshop, exact, 5, tmp_path)
    said, losses, _ = resumed_run(workshop, DILOCO, STEPS, saved, tmp_path)
    assert "the checkpoint has no states of outer steps" in said
    assert losses[0] == workshop.run(exact, STEPS).losses[5]


def test_what_cannot_be_is_refused(workshop: Workshop) -> None:
    for config, expected in [
        (replace(DILOCO, strategy="fcdp"), "expected states that are sharded over the ranks of a node"),
        (replace(DILOCO, nodes=1, local=4), "expected several nodes, got 1"),
        (replace(DILOCO, model="convnet_bn"), "expected no buffer that the step writes"),
        (replace(DILOCO, outer="0"), "of at least 1, first, got '0'"),
        (replace(DILOCO, outer="3,fragments=4"), "expected 'fragments' to be a whole number of at most 3"),
        (replace(DILOCO, outer="3,overlap=yes"), "expected 'overlap' to be one of off, on"),
        (replace(DILOCO, outer="3,rate=1"), "an outer step has no 'rate'"),
        (replace(DILOCO, outer="3,wire=delta"), "expected 'wire' to be one of raw, coded, int8, int4"),
    ]:
        with pytest.raises(ToolError, match=expected):
            workshop.step(config)


def test_messages_are_coded_without_loss_on_cpus_only(workshop: Workshop, tmp_path: Path) -> None:
    command = compile_command(replace(DILOCO, outer="3,wire=coded"), workshop.model("gpt").archive, tmp_path / "step.so")
    with pytest.raises(ToolError, match="to be raw, int8 or int4 for the target 'cuda'"):
        tool(*command, "--target=cuda")


@pytest.mark.parametrize("outer", ["3", "4,fragments=2", "5,overlap=on", "3,fragments=3,overlap=on"])
def test_measured_steps_are_shown_with_and_without_an_outer_step(workshop: Workshop, outer: str, tmp_path: Path) -> None:
    config = replace(DILOCO, outer=outer)
    model, trace = workshop.model(config.model), tmp_path / "trace.json"
    tool(*run_command(workshop.step(config), model.archive, model.inputs, 6, f"--trace={trace}"))
    compiled = [part for part in compile_command(config, model.archive, trace) if str(part).startswith("--")]
    shown = tool(BIN / "fcdp-sim", model.archive, *compiled, "--cluster=cpu", f"--measured={trace}")
    assert "outer steps take" in shown
    assert len([line for line in shown.splitlines() if line.startswith("time")]) == 2
