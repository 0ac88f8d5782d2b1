# SPDX-License-Identifier: Apache-2.0
"""Published runs as the sources describe them, and their predictions."""

import copy
import csv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from constants import PROGRAMS
from simulation import Simulator, load_preset
from steps import Shape

GIB = 2**30


@dataclass
class Run:
    """A training run. A quantity that the source does not have is None."""

    name: str
    shape: Shape
    batch: int
    """Sequences of a micro-batch of one rank."""
    sequence: int
    nodes: int
    ranks: int
    """Ranks per node."""
    cluster: dict[str, Any]
    program: str
    """A key of PROGRAMS."""
    options: tuple[str, ...]
    """Options of fcdp-sim."""
    micro_batches: int = 1
    rate: float | None = None
    """Tokens per second and GPU."""
    memory: float | None = None
    """Bytes of a GPU at the peak."""
    counted: str = "reserved"
    """The kind of bytes that `memory` counts: a key of footprint.COUNTS."""
    fits: bool | None = None
    """None if the source does not say it. A run with a rate has fit."""
    kept: float = 0
    """Bytes that the program keeps on a device and no plan has, less those that only the plan has."""
    in_place: dict[str, float] = field(default_factory=dict)
    """Bytes by operator that the program does not need if most is in use there, because it writes its result over the
    operand.
    """
    updating: float = 0
    """All bytes that the program needs of a device while it updates parameters, or 0 if that is not known to be its
    peak.
    """
    fits_host: bool | None = None
    """Whether a node's host memory is enough; None if the source does not say it."""
    host: float = 0
    """Bytes of a node's host memory."""
    kept_on_host: float = 0
    """Bytes that the program keeps in a node's host memory and no plan has there."""
    unjudged: str = ""
    """The reason why the rate is shown but not judged, or nothing."""

    @property
    def has_fit(self) -> bool | None:
        return True if self.fits is None and self.rate else self.fits

    @property
    def gpus(self) -> int:
        return self.nodes * self.ranks


@dataclass
class Source:
    name: str
    runs: list[Run] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Rows that cannot be predicted, each with a reason."""


def read_table(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / name).open() as file:
        return list(csv.DictReader(file))


def preset(name: str, **device: Any) -> dict[str, Any]:
    """Returns a preset with NCCL's rings, and with `device`'s keys in place of its own."""
    cluster = copy.deepcopy(load_preset(name))
    cluster["device"].update(device)
    return cluster


def with_network(cluster: dict[str, Any], bandwidth: float, sharing: str) -> dict[str, Any]:
    """Returns the cluster with another bandwidth between nodes, in bytes per second of a `sharing` domain.

    The result keeps the preset's measured collectives only within a node.
    """
    local = {axis: tables for axis, tables in cluster.get("collectives", {}).items() if axis == "local"}
    cluster = {key: value for key, value in cluster.items() if key != "collectives"}
    if local:
        cluster["collectives"] = local
    inter = {key: value for key, value in cluster["inter"].items() if key != "ranks_per_switch"}
    return {**cluster, "inter": {**inter, "bandwidth": bandwidth, "sharing": sharing}}


def describe(run: Run) -> dict[str, Any]:
    """Returns the cluster of the run with the costs of the program that ran."""
    program = PROGRAMS[run.program]
    issue = {"operator": program.operator, "view": program.view, "transfer": program.transfer}
    return {**run.cluster, "host": {**run.cluster["host"], "issue": issue}, "fusion": program.fusion}


def predict(simulator: Simulator, run: Run) -> dict[str, Any]:
    """Returns the JSON object of the run's step."""
    options = [f"--nodes={run.nodes}", f"--ranks-per-node={run.ranks}", f"--micro-batches={run.micro_batches}", *run.options]
    return simulator.run(run.shape, run.batch, run.sequence, describe(run), *options)
