# SPDX-License-Identifier: Apache-2.0
"""Parameters of a group train with settings of their own, as in PyTorch, and as segments of their buckets' shards."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from fnmatch import fnmatchcase

import pytest
import torch
from torch import nn

import fcdp
from harness import Config, Workshop, assert_bit_equal, parameters, read_plan, relative_error
from models import build

STEPS = 4
# Decay that shows after a few steps. Members of a bucket take turns: a layer's weights and biases are in different
# groups.
ADAMW = "adamw,lr=1e-2,eps=1e-3,weight_decay=2"
SGD = "sgd,lr=0.1,momentum=0.9,weight_decay=0.5"
GROUPS = ("*.bias,*ln*:weight_decay=0", "*wte*,*wpe*:lr=0.25,weight_decay=0.5", "*.bias,*up*:lr=2")
GROUPED = Config("gpt", optimizer=ADAMW, groups=GROUPS)


def settings(name: str, weight_decay: float) -> tuple[float, float]:
    """The factor of the learning rate and the weight decay that GROUPS give a parameter."""
    if fnmatchcase(name, "*.bias") or fnmatchcase(name, "*ln*"):
        return 1, 0
    if fnmatchcase(name, "*wte*") or fnmatchcase(name, "*wpe*"):
        return 0.25, 0.5
    return (2 if fnmatchcase(name, "*up*") else 1), weight_decay


def grouped(model: nn.Module, optimizer: str) -> Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]:
    lr, weight_decay = (1e-2, 2.0) if optimizer == ADAMW else (0.1, 0.5)
    groups = []
    for name, parameter in model.named_parameters():
        factor, decay = settings(name, weight_decay)
        groups.append({"params": [parameter], "lr": lr * factor, "weight_decay": decay})
    if optimizer == ADAMW:
        return lambda _: torch.optim.AdamW(groups, eps=1e-3)
    return lambda _: torch.optim.SGD(groups, momentum=0.9)


@pytest.mark.parametrize("optimizer", [ADAMW, SGD], ids=["adamw", "sgd"])
@pytest.mark.parametrize(("nodes", "local"), [(1, 1), (2, 2)])
def test_training_is_that_of_pytorch(workshop: Workshop, optimizer: str, nodes: int, local: int) -> None:
    config = replace(GROUPED, nodes=nodes, local=local, optimizer=optimizer)
    trained, model = workshop.run(config, STEPS), build(config.model)
    used = {settings(name, 3) for name, _ in model.named_parameters()}
    assert used == {(1, 0), (0.25, 0.5), (2, 3), (1, 3)}
    data = fcdp.batches_from_npy(workshop.model(config.model).inputs, config.world, config.micro_batches)
    expected = fcdp.reference(model, data, grouped(model, optimizer), STEPS, world=config.world, seed=0)
    assert relative_error(trained.losses, expected) <= 1e-5
    values = parameters(trained.parameters)
    for name, value in model.named_parameters():
        assert values[name].allclose(value, rtol=1e-4, atol=1e-6), name
    # The test can fail: the groups change what is learned.
    plain = parameters(workshop.run(replace(config, groups=()), STEPS).parameters)
    changed = [name for name, _ in model.named_parameters() if not plain[name].allclose(values[name], rtol=1e-3)]
    assert len(changed) > len(values) / 2


@pytest.mark.parametrize(
    "other",
    [
        {"strategy": "zero3"},
        {"strategy": "zero2"},
        {"strategy": "hsdp"},
        {"strategy": "ddp"},
        {"nodes": 4, "local": 1},
        {"nodes": 1, "local": 4, "strategy": "ddp"},
        {"layout": "owned"},
        {"layout": "ragged<8>"},
        {"bucket_bytes": 1 << 16},
    ],
    ids=lambda other: "-".join(map(str, other.values())),
)
@pytest.mark.parametrize("optimizer", [ADAMW, SGD], ids=["adamw", "sgd"])
def test_strategies_and_layouts_are_bit_equal(workshop: Workshop, optimizer: str, other: dict[str, object]) -> None:
    config = replace(GROUPED, optimizer=optimizer)
    mesh = {key: value for key, value in other.items() if key in ("nodes", "local")}
    one = replace(config, **mesh)
    assert_bit_equal(workshop.run(one, STEPS), workshop.run(replace(config, **other), STEPS))


@pytest.mark.parametrize("strategy", ["fcdp", "ddp"])
def test_one_setting_for_all_in_segments_changes_no_bit(workshop: Workshop, strategy: str) -> None:
    """Each second parameter is a segment of its own, with nearly the optimizer's settings: the smallest other
    factor."""
    config = replace(GROUPED, strategy=strategy, groups=())
    cut = replace(config, groups=("*.weight:lr=1.0000000000000002",))
    plan = read_plan(workshop.step(cut))
    groups = [parameter.get("group") for parameter in plan["parameters"]]
    assert 0 in groups and None in groups
    assert_bit_equal(workshop.run(cut, STEPS), workshop.run(config, STEPS))


def test_bytes_and_memory_are_those_without_groups(workshop: Workshop) -> None:
    plain = replace(GROUPED, groups=())
    one, other = workshop.run(GROUPED, STEPS), workshop.run(plain, STEPS)
    assert one.traffic == other.traffic
    assert [step["device_peak_bytes"] for step in one.steps] == [step["device_peak_bytes"] for step in other.steps]
    plans = [read_plan(workshop.step(config)) for config in (GROUPED, plain)]
    for plan in plans:
        assert len(plan.pop("groups", [])) == (3 if plan is plans[0] else 0)
        for parameter in plan["parameters"]:
            parameter.pop("group", None)
    assert plans[0] == plans[1]


def test_models_in_bf16(workshop: Workshop) -> None:
    config = replace(GROUPED, model="gpt_bf16")
    trained = workshop.run(config, STEPS)
    assert_bit_equal(trained, workshop.run(replace(config, strategy="ddp"), STEPS))
    assert trained.losses != workshop.run(replace(config, groups=()), STEPS).losses


def test_tied_and_frozen_parameters(workshop: Workshop) -> None:
    config = Config("gpt_tied", optimizer=ADAMW, groups=("*head*:lr=0",))
    values = parameters(workshop.run(config, STEPS).parameters)
    model = build("gpt_tied")
    still = [name for name, value in model.named_parameters() if values[name].equal(value)]
    assert len(still) == 1
