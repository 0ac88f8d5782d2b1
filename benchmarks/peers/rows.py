# SPDX-License-Identifier: Apache-2.0
"""The rows of the tables: what is compiled by fcdp, and what the peers are asked to do."""

from dataclasses import dataclass, field
from typing import Any

DTYPES = {"f32": "float32", "bf16": "bfloat16 with float32 masters"}


@dataclass(frozen=True)
class Row:
    name: str
    label: str
    dtypes: tuple[str, ...] = ("f32", "bf16")
    accumulates: bool = False
    """It differs from another row only with several micro-batches, and is left out with one."""
    exact: bool = True
    """Its losses are those of fcdp within the tolerance. Otherwise only the first one is, before any update."""
    cycle: int = 1
    """The number of steps after which its traffic repeats."""
    rounds_masters: bool = False
    """Its float32 masters begin as the bfloat16 parameters, whose losses differ more from fcdp's."""


@dataclass(frozen=True)
class Compiled(Row):
    """A step of fcdp."""

    options: tuple[str, ...] = ()
    """Options of fcdp-compile beside those that all rows have."""
    coded: bool = False
    """The planned bytes are an upper bound."""


@dataclass(frozen=True)
class Peer(Row):
    trainer: str = ""
    """The module that trains."""
    settings: dict[str, Any] = field(default_factory=dict)
    """For `prepare` of that module."""
    package: str = ""
    """The package of requirements.txt that it needs."""


SYNC_EVERY = 16  # steps between two synchronizations of fcdp's outer steps and torchft's algorithms


def _coded(name: str, *options: str, exact: bool = True) -> Compiled:
    """Wires for bfloat16."""
    return Compiled(name, f"fcdp, `{' '.join(options)}`", ("bf16",), exact=exact, options=options, coded=True)


COMPILED = [
    Compiled("fcdp", "fcdp"),
    Compiled("fcdp-node", "fcdp, `--accumulate=node`", accumulates=True, options=("--accumulate=node",)),
    _coded("fcdp-delta", "--wire=delta"),
    _coded("fcdp-coded", "--wire=delta", "--reduce-wire=coded"),
    _coded("fcdp-int8", "--wire=delta", "--reduce-wire=int8", exact=False),
    _coded("fcdp-int4", "--wire=delta", "--reduce-wire=int4", exact=False),
    Compiled(
        "fcdp-outer",
        f"fcdp, `--strategy=hsdp --outer={SYNC_EVERY}`",
        exact=False,
        cycle=SYNC_EVERY,
        options=("--strategy=hsdp", f"--outer={SYNC_EVERY}"),
    ),
]


def _fsdp2(name: str, label: str, accumulates: bool = False, **settings: Any) -> Peer:
    return Peer(f"fsdp2-{name}", f"FSDP2, {label}", accumulates=accumulates, trainer="train_fsdp2", settings=settings)


def _ddp(name: str, label: str, accumulates: bool = False, **settings: Any) -> Peer:
    return Peer(name, label, accumulates=accumulates, trainer="train_ddp", settings=settings)


def _deepspeed(name: str, label: str, exact: bool = True, **zero: Any) -> Peer:
    needs = dict(trainer="train_deepspeed", package="deepspeed", rounds_masters=True)
    return Peer(f"deepspeed-{name}", f"DeepSpeed, {label}", exact=exact, settings=zero, **needs)


# A model of this size stays below the defaults, with which nothing would be released, and hpZ would have no effect.
RELEASED = {"stage3_max_live_parameters": 0, "stage3_max_reuse_distance": 0}
HPZ = {**RELEASED, "zero_hpz_partition_size": 2}
QUANTIZED = {"zero_quantized_weights": True, "zero_quantized_gradients": True}

PEERS = [
    _fsdp2("full", "full shard", reshard=True),
    _fsdp2("full-nosync", "full shard, gradients synchronized once", True, reshard=True, sync=False),
    _fsdp2("prefetch", "full shard, explicit prefetch", reshard=True, prefetch=True),
    _fsdp2("noreshard", "no reshard", reshard=False),
    _fsdp2("noreshard-nosync", "no reshard, gradients synchronized once", True, reshard=False, sync=False),
    _fsdp2("node", "reshard to the node", reshard="node"),
    _fsdp2("hsdp", "HSDP", reshard=True, hybrid=True),
    _fsdp2("hsdp-noallreduce", "HSDP, nodes synchronized once", True, reshard=True, hybrid=True, all_reduce=False),
    _ddp("ddp", "DDP", sync=True),
    _ddp("ddp-nosync", "DDP, gradients synchronized once", accumulates=True, sync=False),
    _deepspeed("zero3", "ZeRO-3"),
    _deepspeed("zero3-released", "ZeRO-3, parameters released", **RELEASED),
    _deepspeed("hpz", "ZeRO-3 with hpZ", **HPZ),
    _deepspeed("qwz", "ZeRO-3 with hpZ and quantized weights", False, **HPZ, zero_quantized_weights=True),
    _deepspeed("qgz", "ZeRO-3 with hpZ and quantized gradients", False, **HPZ, zero_quantized_gradients=True),
    _deepspeed("zeropp", "ZeRO++: hpZ, quantized weights and gradients", False, **HPZ, **QUANTIZED),
    *(
        Peer(
            f"torchft-{name}",
            f"torchft, {label} every {SYNC_EVERY} steps",
            exact=False,
            trainer="train_torchft",
            settings={"algorithm": name, "sync_every": SYNC_EVERY},
            package="torchft",
            cycle=SYNC_EVERY,
        )
        for name, label in (("diloco", "DiLoCo"), ("localsgd", "LocalSGD"))
    ),
]

ROWS: dict[str, Compiled | Peer] = {row.name: row for row in [*COMPILED, *PEERS]}
FIRST = COMPILED[0]
"""The row that others are compared with."""
SHORT = ["fsdp2-full", "fsdp2-noreshard", "ddp", "deepspeed-zero3"]


def chosen(names: list[str], dtype: str, micro_batches: int) -> list[Compiled | Peer]:
    """Returns the rows that apply, the first row at first."""
    rows = [row for row in ROWS.values() if row == FIRST or row.name in names]
    return [row for row in rows if dtype in row.dtypes and not (row.accumulates and micro_batches == 1)]
