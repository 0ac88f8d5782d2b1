# SPDX-License-Identifier: Apache-2.0
"""Bytes that a node sends and copies per optimizer step, by the closed forms, from bucket sizes alone.

Nothing here looks at the compiler's operations or at its own prediction. What is taken from the manifest is the storage
layout (which parameters share a bucket, and the padding); how often a bucket is used comes from the caller, who knows the
model. W, Wr: a bucket's bytes in the type of its gather and of its reduction. u: its live ranges in a micro-batch.
"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

TYPE_BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2}


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
    padding_bytes: int
    """In the gather type; part of `gather_bytes`."""


def buckets(manifest: Mapping[str, Any]) -> list[Bucket]:
    members: list[int] = [0] * len(manifest["buckets"])
    for parameter in manifest["parameters"]:
        elements = 1
        for size in parameter["shape"]:
            elements *= size
        members[parameter["bucket"]] += elements
    result = []
    for bucket, used in zip(manifest["buckets"], members):
        elements, wire = bucket["elements"], TYPE_BYTES[bucket["wire"]]
        reduce = TYPE_BYTES[bucket["reduce"]] if bucket["trainable"] else 0
        result.append(
            Bucket(
                bucket["name"],
                bucket["unit"],
                bucket["trainable"],
                elements * wire,
                elements * reduce,
                (elements - used) * wire,
            )
        )
    return result


def traffic(
    manifest: Mapping[str, Any], strategy: str, live_ranges: Mapping[str, int]
) -> tuple[Traffic, Traffic]:
    """(what happens once, before the first step; what happens in every step). live_ranges: u by unit."""
    once, each = Traffic(), Traffic()
    for bucket in buckets(manifest):
        first, always = _bucket_traffic(bucket, live_ranges[bucket.unit], manifest, strategy)
        once, each = once + first, each + always
    return once, each


def _bucket_traffic(
    bucket: Bucket, live_ranges: int, manifest: Mapping[str, Any], strategy: str
) -> tuple[Traffic, Traffic]:
    nodes, local, micro_batches = manifest["mesh"]["nodes"], manifest["mesh"]["local"], manifest["micro_batches"]
    uses = live_ranges * micro_batches
    gather = bucket.gather_bytes
    # A node sends each of the others its N-th part; a rank sends each of its node its g-th part, g ranks do.
    over_network = gather * (nodes - 1) // nodes
    intra = uses * gather * (local - 1) + micro_batches * bucket.reduce_bytes * (local - 1)
    reduced = micro_batches * bucket.reduce_bytes * (nodes - 1) // nodes
    if strategy == "zero3" or nodes == 1:
        return Traffic(), Traffic(inter=uses * over_network + reduced, intra=intra)
    assert strategy == "fcdp", strategy
    if not bucket.trainable:
        once = Traffic(inter=over_network, d2h=gather) if uses else Traffic()
        return once, Traffic(intra=intra, h2d=uses * gather)
    again = max(uses - 1, 0)
    return Traffic(), Traffic(
        inter=min(uses, 1) * over_network + reduced, intra=intra, h2d=again * gather, d2h=gather if again else 0
    )
