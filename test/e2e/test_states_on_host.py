# SPDX-License-Identifier: Apache-2.0
"""States in host memory: an update that streams them has the bits of one on the device."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkpoints import assert_equal_tensors, read_checkpoint
from closed_forms import state_bytes
from harness import LION, Config, Workshop, assert_bit_equal, read_plan
from optimizer_checks import STEPS, assert_planned_memory, save

# Buckets of several pieces, the last of which are smaller.
HOST = "host,piece=20000"

CONFIGS = {
    "adamw": Config("hf_llama", strategy="zero3"),
    # Masters, clipping, micro-batches and groups, whose edges are within pieces.
    "everything": Config(
        "gpt_bf16", micro_batches=4, clip_norm=0.05, master="f32", groups=("*.bias,*ln*:weight_decay=0", "*wte*:lr=0.25")
    ),
    "bf16": Config("gpt_bf16", strategy="zero3", micro_batches=4, optimizer=LION),
    "sums": Config("gpt_bf16", strategy="zero3", micro_batches=4, accumulate="node_host", master="f32"),
    "sgd": Config("mlp_dropout", strategy="zero2", optimizer="sgd,lr=0.05,momentum=0.9"),
    "adamw8bit": Config("gpt_bf16", strategy="hsdp", clip_norm=0.05, master="f32", optimizer="adamw8bit,lr=1e-3"),
    "ademamix": Config("mlp_dropout", 1, 2, "ddp", optimizer="ademamix,lr=1e-3,alpha_warmup=4,beta3_warmup=4"),
}
# Optimizers that update whole parameters stream whole shards.
WHOLE = {
    "muon": Config("gpt_bf16", 1, 2, "zero3", optimizer="muon,lr=1e-3+adamw,lr=1e-3"),
    "adafactor": Config("mlp_dropout", 1, 2, "zero3", optimizer="adafactor"),
    "soap": Config("mlp_dropout", 1, 2, "zero3", optimizer="soap,precondition_frequency=2"),
}


def states_in(plan: Mapping[str, Any], arena: str) -> int:
    """The bytes of a rank's states in an arena."""
    states = (state for bucket in plan["buckets"] for state in bucket["states"].values())
    return sum(state["bytes"] for state in states if state["arena"] == arena)


def align(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def end_of_states(plan: Mapping[str, Any]) -> int:
    """The end of a rank's states on the device."""
    states = (state for bucket in plan["buckets"] for state in bucket["states"].values())
    return max(align(state["offset"] + state["bytes"], 256) for state in states if state["arena"] == "device")


@pytest.mark.parametrize("name", [*CONFIGS, *WHOLE])
def test_bits_are_those_of_states_on_the_device(workshop: Workshop, name: str) -> None:
    config = CONFIGS[name] if name in CONFIGS else WHOLE[name]
    other = replace(config, states=HOST if name in CONFIGS else "host")
    assert_bit_equal(workshop.run(config, STEPS), workshop.run(other, STEPS))
    if name in CONFIGS:  # the others' products of matrices take memory from the system
        assert_planned_memory(workshop, other)


@pytest.mark.parametrize("name", CONFIGS)
def test_bits_are_those_of_updates_on_the_device(workshop: Workshop, name: str) -> None:
    other = replace(CONFIGS[name], states=HOST, update="host")
    assert_bit_equal(workshop.run(CONFIGS[name], STEPS), workshop.run(other, STEPS))
    assert_planned_memory(workshop, other)


def test_the_device_has_no_states(workshop: Workshop) -> None:
    config = CONFIGS["adamw"]
    device, host = (read_plan(workshop.step(replace(config, states=states))) for states in ("", HOST))
    trained = [bucket for bucket in device["buckets"] if bucket["trainable"]]
    sizes = [state_bytes(bucket, "adamw", config.world) for bucket in trained]
    assert states_in(device, "host") == 0
    assert states_in(host, "host") == sum(size["exp_avg"] + size["exp_avg_sq"] for size in sizes)
    assert states_in(host, "device") == sum(size["shard"] + size["grad"] for size in sizes)
    # Each bucket is updated in the backward pass, so that one place is enough for all gradients.
    assert len({bucket["states"]["grad"]["offset"] for bucket in host["buckets"] if bucket["trainable"]}) == 1
    grads = [size["grad"] for size in sizes]
    assert end_of_states(device) - end_of_states(host) == sum(
        align(size["exp_avg"] + size["exp_avg_sq"], 512) + align(size["grad"], 256) for size in sizes
    ) - align(max(grads), 256)
    (update,) = (function for function in host["functions"] if function["role"] == "update")
    assert update["first"] == update["end"]
    # Each rank of a node has its part.
    strides = {state["local_stride"] for bucket in host["buckets"] for state in bucket["states"].values()} - {0}
    assert host["host_bytes"] == config.local * strides.pop() and not strides


def most_reserved(plan: Mapping[str, Any]) -> int:
    """The most bytes of the device that the update has in use at once, beside states."""
    (update,) = (function for function in plan["functions"] if function["role"] == "update")
    return max(
        sum(one["bytes"] for one in update.get("reserved", []) if one["from"] <= op < one["to"])
        for op in range(update["first"], update["end"])
    )


def test_windows_are_three_pieces(workshop: Workshop) -> None:
    # Clipping keeps updates after the backward pass, where nothing else needs memory.
    config = replace(CONFIGS["adamw"], clip_norm=1.0, prefetch=0)
    streamed, updated = (
        read_plan(workshop.step(replace(config, states=HOST, update=update))) for update in ("", "host")
    )
    # Two moments of an element have 8 bytes. Shards are cut into equal multiples of 256 elements.
    pieces = []
    for bucket in (bucket for bucket in updated["buckets"] if bucket["trainable"]):
        elements, most = bucket["shard_elements"], 20000 // 8 // 256 * 256
        each = align(-(-elements // -(-elements // most)), 256)
        pieces += [min(each, elements - begin) for begin in range(0, elements, each)]
    assert len(pieces) > 3

    # The window of a streamed update is on the device: three pieces of two moments. Besides, both updates have what the
    # function before has in flight.
    loads = [op["out"] for op in streamed["ops"] if op["kind"] == "state_load"]
    assert sum(load["bytes"] for load in loads) == 8 * sum(pieces)
    assert most_reserved(streamed) - most_reserved(updated) == 3 * 2 * align(4 * max(pieces), 256)

    # The windows of an update on the host are in each rank's part of host memory, with a gradient and a shard each.
    assert not [op for op in updated["ops"] if op["kind"] in ("state_load", "shard_update")]
    stores = [op for op in updated["ops"] if op["kind"] == "store_gradient"]
    assert sorted(op["grad"]["bytes"] for op in stores) == sorted(4 * elements for elements in pieces)
    windows = [
        max(align(op["grad_out"]["bytes"], 64) + op["shard_out"]["bytes"] for op in stores[i::3]) for i in range(3)
    ]
    states = sum(
        align(state["bytes"], 256)
        for bucket in updated["buckets"]
        for state in bucket["states"].values()
        if state["arena"] == "host"
    )
    assert updated["host_bytes"] == config.local * (states + sum(align(window, 256) for window in windows))
    assert updated["planned"]["device_bytes"] <= streamed["planned"]["device_bytes"]


def test_checkpoints_go_on_with_states_elsewhere(workshop: Workshop, tmp_path: Path) -> None:
    host = replace(CONFIGS["everything"], states=HOST)
    device = replace(CONFIGS["everything"], strategy="zero3")
    save(workshop, device, tmp_path / "device", STEPS)
    half = tmp_path / "device" / f"step-{STEPS // 2:08}"
    save(workshop, host, tmp_path / "host", STEPS, f"--resume={half}")
    states = [read_checkpoint(tmp_path / name / f"step-{STEPS:08}").states for name in ("device", "host")]
    assert_equal_tensors(*states)
    assert {"master", "exp_avg", "exp_avg_sq"} <= {role for role, _ in states[0]}
    save(workshop, device, tmp_path / "back", STEPS + 1, f"--resume={tmp_path / 'host'}")
    save(workshop, device, tmp_path / "device", STEPS + 1, "--resume")
    assert_equal_tensors(
        *(read_checkpoint(tmp_path / name / f"step-{STEPS + 1:08}").states for name in ("device", "back"))
    )


def test_auto_moves_what_the_memory_demands(workshop: Workshop) -> None:
    config = CONFIGS["adamw"]
    device, host = (
        read_plan(workshop.step(replace(config, states=states)))["planned"]["device_bytes"] for states in ("", HOST)
    )
    limit = (device + host) // 2
    between = replace(config, states="auto,piece=20000", device_memory=limit)
    planned = read_plan(workshop.step(between))["planned"]["device_bytes"]
    assert host < planned <= limit < device
    assert_bit_equal(workshop.run(config, STEPS), workshop.run(between, STEPS))
