# SPDX-License-Identifier: Apache-2.0
"""Bytes that a node sends and copies per optimizer step, by the closed forms, from bucket sizes alone.

Nothing here looks at the compiler's operations or at its own prediction. The plan gives only the storage layout (which
parameters share a bucket, and the padding); how often a bucket is used comes from the caller, who knows the model. W,
Wr: a bucket's bytes in the type of its gather and of its reduction. u: its live ranges in a micro-batch.
"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

TYPE_BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "u8": 1}


@dataclass(frozen=True)
class Traffic:
    """Per node: the sum over its ranks."""

    inter: int = 0
    intra: int = 0
    h2d: int = 0
    d2h: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(*(a + b for a, b in zip(astuple(self), astuple(other))))


@dataclass(frozen=True)
class Bucket:
    name: str
    unit: str
    trainable: bool
    gather_bytes: int
    reduce_bytes: int
    gradient_bytes: int
    """Bytes in float32."""
    padding_bytes: int
    """Bytes of padding in the gather type; part of `gather_bytes`."""


def buckets(plan: Mapping[str, Any]) -> list[Bucket]:
    members: list[int] = [0] * len(plan["buckets"])
    for parameter in plan["parameters"]:
        elements = 1
        for size in parameter["shape"]:
            elements *= size
        members[parameter["bucket"]] += elements
    result = []
    for bucket, used in zip(plan["buckets"], members):
        elements, wire = bucket["elements"], TYPE_BYTES[bucket["wire"]]
        reduce = TYPE_BYTES[bucket["reduce"]] if bucket["trainable"] else 0
        result.append(
            Bucket(
                bucket["name"],
                bucket.get("unit", ""),
                bucket["trainable"],
                elements * wire,
                elements * reduce,
                4 * elements if bucket["trainable"] else 0,
                (elements - used) * wire,
            )
        )
    return result


def message_capacity(values: int) -> int:
    """Most bytes of a coded message for that many bytes of values: a header of 64, and 16 for each 128 KiB, rounded
    up."""
    most = 64 + values + -(-values // (128 * 1024)) * 16
    return -(-most // 64) * 64 if values else 0


OPTIMIZER_STATES = {
    "adamw": ("exp_avg", "exp_avg_sq"),
    "adamw8bit": ("exp_avg_code", "exp_avg_scale", "exp_avg_sq_code", "exp_avg_sq_scale"),
    "lion": ("exp_avg",),
    "ademamix": ("exp_avg", "exp_avg_sq", "momentum_buffer"),
    "muon": ("momentum_buffer",),
    "sgd": ("momentum_buffer",),
}
"""SGD's with momentum."""


def state_bytes(bucket: Mapping[str, Any], optimizer: str, parts: int) -> dict[str, int]:
    """Bytes of device memory on each rank of the states of a trained bucket that is sharded over `parts` ranks, by
    role.

    Gradients are in float32, and with a master the optimizer's states are, too: 2 + 4 + 4 (1 + moments) bytes for each
    element of a bfloat16 model.
    """
    elements, storage = bucket["elements"] // parts, TYPE_BYTES[bucket["storage"]]
    master = {"master": 4 * elements} if "master" in bucket["states"] else {}
    moments = dict.fromkeys(OPTIMIZER_STATES[optimizer], elements * (4 if master else storage))
    if optimizer == "adamw8bit":
        # A code for each element, and a float32 for each block of 256.
        moments = {role: elements if role.endswith("code") else 4 * (elements // 256) for role in moments}
    return {"shard": elements * storage, "grad": 4 * elements} | master | moments


ACCUMULATION = {"zero1": "full", "mics": "node"}
"""The accumulation of strategies that do not accumulate `sharded`."""

SHARDING = {"ddp": "none", "hsdp": "node", "mics": "node"}
"""The sharding of strategies that do not shard states over all ranks."""


KEEPS_SLICES = ("hpz", "fcdp")
"""Strategies that keep the slice of a node, so that their gathers are never flat."""


def traffic(
    plan: Mapping[str, Any],
    strategy: str,
    live_ranges: Mapping[str, int],
    accumulation: str = "",
    collectives: str = "two-level",
) -> tuple[Traffic, Traffic]:
    """Returns the traffic before the first step, and the traffic of each step. live_ranges: u by unit."""
    mode = accumulation or ACCUMULATION.get(strategy, "sharded")
    flat = collectives == "flat" and min(plan["nodes"], plan["ranks_per_node"]) > 1
    once, each = Traffic(), Traffic()
    for bucket in buckets(plan):
        first, always = _gathers(bucket, live_ranges[bucket.unit], plan, strategy, flat)
        once, each = once + first, each + always + _reductions(bucket, plan, strategy, mode, flat)
        if mode == "node_host":
            each += _host_sums(bucket, plan)
    return once, each


def _over_world(count: int, whole_bytes: int, plan: Mapping[str, Any]) -> Traffic:
    """In one step, each of the g ranks of a node sends one part to each rank; G - g of these are on other nodes."""
    nodes, local = plan["nodes"], plan["ranks_per_node"]
    part = whole_bytes // (nodes * local)
    return Traffic(inter=count * local * (nodes - 1) * local * part, intra=count * local * (local - 1) * part)


def _gathers(
    bucket: Bucket, live_ranges: int, plan: Mapping[str, Any], strategy: str, flat: bool
) -> tuple[Traffic, Traffic]:
    nodes, local = plan["nodes"], plan["ranks_per_node"]
    uses = live_ranges * plan["micro_batches"]
    # A node sends each of the others its N-th part; a rank sends each of its node its g-th part, g ranks do.
    over_network = bucket.gather_bytes * (nodes - 1) // nodes
    within_node = bucket.gather_bytes * (local - 1)
    if flat and strategy not in KEEPS_SLICES and strategy not in SHARDING:
        times = uses if strategy == "zero3" else min(uses, 1)
        gathered = _over_world(times, bucket.gather_bytes, plan)
        return (Traffic(), gathered) if bucket.trainable or strategy == "zero3" else (gathered, Traffic())
    if strategy == "zero3":
        return Traffic(), Traffic(inter=uses * over_network, intra=uses * within_node)
    if strategy == "ddp":
        return Traffic(), Traffic()
    if strategy in SHARDING:
        return Traffic(), Traffic(intra=uses * within_node)
    # All others gather once over the network: per step, or, what is frozen, per job.
    fetch = Traffic(inter=over_network) if uses else Traffic()
    again = Traffic(intra=uses * within_node)
    if strategy in ("zero1", "zero2"):  # and within the node, too
        fetch, again = fetch + Traffic(intra=within_node if uses else 0), Traffic()
    elif strategy == "fcdp" and nodes > 1:
        loads = uses - 1 if bucket.trainable else uses
        if loads > 0:
            fetch += Traffic(d2h=bucket.gather_bytes)
            again += Traffic(h2d=loads * bucket.gather_bytes)
    if bucket.trainable:
        return Traffic(), fetch + again
    return fetch, again


def _reductions(
    bucket: Bucket, plan: Mapping[str, Any], strategy: str, accumulation: str, flat: bool
) -> Traffic:
    nodes, local, micro_batches = plan["nodes"], plan["ranks_per_node"], plan["micro_batches"]
    within_nodes = 1 if accumulation == "full" else micro_batches
    between_nodes = micro_batches if accumulation == "sharded" else 1
    # Within one node there is nothing left to reduce between nodes, so that nothing waits for the last micro-batch.
    if nodes == 1 and accumulation in ("node", "node_host"):
        between_nodes = micro_batches
    # A part that all nodes, or all ranks, own is gathered after the reduction.
    again = between_nodes if strategy in SHARDING else 0
    again_within = between_nodes if strategy == "ddp" else 0
    if flat and accumulation in ("sharded", "full"):
        reduced = _over_world(between_nodes, bucket.reduce_bytes, plan)
        if strategy == "ddp":
            return reduced + _over_world(again, bucket.gradient_bytes, plan)
        return reduced + Traffic(inter=again * bucket.gradient_bytes * (nodes - 1) // nodes)
    return Traffic(
        inter=(between_nodes * bucket.reduce_bytes + again * bucket.gradient_bytes) * (nodes - 1) // nodes,
        intra=(within_nodes * bucket.reduce_bytes + again_within * bucket.gradient_bytes) * (local - 1),
    )


def _host_sums(bucket: Bucket, plan: Mapping[str, Any]) -> Traffic:
    """The first micro-batch stores a node's slices, the last one loads them, each one between does both."""
    if plan["nodes"] == 1:
        return Traffic()
    copied = (plan["micro_batches"] - 1) * bucket.gradient_bytes
    return Traffic(h2d=copied, d2h=copied)
