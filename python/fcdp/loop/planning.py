# SPDX-License-Identifier: Apache-2.0
"""Chooses how a step is planned if its user names no strategy, and says what was chosen."""

import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from fcdp.loop.cluster import ProbeRequest, describe_age, measured_cluster
from fcdp.loop.job import Job
from fcdp.loop.prediction import predicted_steps

AUTO = "auto"
_PRESET = "fcdp"
_MIB = 1 << 20


@dataclass(frozen=True)
class Planning:
    """How fcdp-compile plans a step, the same on all ranks."""

    strategy: str
    cluster: str | None = None
    """A file on rank 0's machine, or the name of a preset."""
    origin: str = ""
    """The source of the description, for its user."""
    is_measured: bool = False
    """Whether fcdp.compile has measured it."""

    @property
    def options(self) -> list[str]:
        return [f"--strategy={self.strategy}", *([f"--cluster={self.cluster}"] if self.cluster is not None else [])]


def plan_for(
    job: Job,
    model: nn.Module,
    strategy: str | None,
    cluster: str | os.PathLike[str] | None,
    options: Sequence[str],
    cache: Path,
    threads: int | None,
    network_interface: str,
) -> Planning:
    """Collective. Returns how to plan a step of `model`, and measures the job's machines if nothing describes them."""
    strategy = strategy or os.environ.get("FCDP_STRATEGY") or None
    cluster = cluster or os.environ.get("FCDP_CLUSTER") or None
    has_cluster = cluster is not None or _has(options, "cluster")
    given = os.fspath(cluster) if cluster is not None else None
    if _has(options, "strategy"):
        return Planning(_value(options, "strategy"), given)
    if strategy is None:
        # Outer steps need a strategy that shards within a node, and one rank has nothing to choose.
        strategy = "hsdp" if _has(options, "outer") else AUTO if has_cluster or job.launch.num_ranks > 1 else _PRESET
    if strategy != AUTO or has_cluster:
        return Planning(strategy, given, f"of the cluster {given or _value(options, 'cluster')}")
    is_for_gpus = _value(options, "target") == "cuda" or any(tensor.is_cuda for tensor in model.parameters())
    measured = measured_cluster(job, cache, ProbeRequest(is_for_gpus, threads, network_interface))
    if measured is None:
        return Planning(_PRESET)
    return Planning(AUTO, str(measured), f"of the machines as measured on {describe_age(measured)}, kept in {measured}", True)


def _has(options: Sequence[str], name: str) -> bool:
    return any(option == f"--{name}" or option.startswith(f"--{name}=") for option in options)


def _value(options: Sequence[str], name: str) -> str:
    return next((option.partition("=")[2] for option in reversed(options) if option.startswith(f"--{name}=")), "")


def describe_choice(archive: Path, options: Sequence[str], planning: Planning, is_by_profile: bool) -> str:
    """Returns two lines that say what was chosen, and what zero3 would take; "" if that is not known."""
    given = [option for option in options if not option.startswith("--strategy=")]
    steps = {step["strategy"]: step for step in predicted_steps(archive, [*given, f"--compare=zero3,{AUTO}"])}
    chosen, other = steps.get(AUTO), steps.get("zero3")
    if chosen is None or "seconds" not in chosen:
        return ""
    times = ", with the times of an earlier job's operations" if is_by_profile else ""
    lines = [f"fcdp: strategy auto: {_describe_plan(chosen)}, by a prediction {planning.origin}{times}"]
    if other is not None and "seconds" in other:
        saved = 1 - chosen["seconds"] / other["seconds"]
        lines.append(
            f"fcdp: zero3 would take {_describe_seconds(other['seconds'])}, send {_describe_sent(other)}, and use "
            f"{other['device_memory']['bytes'] / _MIB:.0f} MiB of a device: auto saves {max(saved, 0):.0%} of the time"
        )
    return "\n".join(lines)


def _describe_plan(step: dict[str, Any]) -> str:
    """Returns "0.5 s a step, 61 MiB from each node, 8 buckets in host memory, ..."."""
    residencies = Counter(bucket["residency"] for bucket in step["buckets"])
    places = {
        "full": "kept on each device",
        "node": "kept in slices on the devices of a node",
        "host": "kept in host memory",
        "drop": "gathered again",
    }
    kept = [f"{residencies[name]} buckets {place}" for name, place in places.items() if residencies[name]]
    sums = {bucket["accumulation"] for bucket in step["buckets"] if bucket["trainable"]}
    if step["micro_batches"] > 1 and sums:
        kept.append(f"accumulation {', '.join(sorted(sums))}")
    return ", ".join(
        [
            f"{_describe_seconds(step['seconds'])} a step",
            f"{_describe_sent(step)}",
            f"{step['device_memory']['bytes'] / _MIB:.0f} MiB of a device",
            *kept,
        ]
    )


def _describe_seconds(seconds: float) -> str:
    return f"{seconds:.3g} s"


def _describe_sent(step: dict[str, Any]) -> str:
    return f"{step['bytes']['step']['inter'] / _MIB:.0f} MiB from each node"


def show_choice(text: str) -> None:
    if text and sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)
