# SPDX-License-Identifier: Apache-2.0
"""Computes figures and compares them with goals. This module runs no programs."""

import json
import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

# Relative difference of losses after 20 steps in f32 on two kinds of device, whose sums have different orders.
MOST_DIFFERENCE = 1e-4
# The same in bf16 against PyTorch. fcdp sums gradients in f32, PyTorch in bf16.
MOST_DIFFERENCE_BF16 = 2e-2
# The same in f32 with gradients that are rounded to 8 bits, of which a last bit may change one.
MOST_DIFFERENCE_ROUNDED = 1e-3
# Tokens per second relative to eager PyTorch on the same GPU.
LEAST_OF_EAGER = 1.0
# Bytes in use on the device besides the plan: CUDA's context and kernels, workspaces, inputs, and blocks that libtorch
# keeps.
MOST_UNPLANNED = 2 << 30
KERNELS = "kernels"  # the name in the output of syncs.c
# The host's time per operation relative to eager PyTorch.
MOST_OF_EAGER_HOST = 1.0


@dataclass(frozen=True)
class Figure:
    name: str
    value: str
    goal: str = ""
    """Empty if there is no goal; then `met` means nothing."""
    met: bool = True


def render(figures: Sequence[Figure]) -> str:
    width = max(len(figure.name) for figure in figures)
    values = max(len(figure.value) for figure in figures)
    lines = []
    for figure in figures:
        goal = f"{'met   ' if figure.met else 'MISSED'}  goal: {figure.goal}" if figure.goal else "no goal"
        lines.append(f"{figure.name:{width}}  {figure.value:{values}}  {goal}")
    return "\n".join(lines)


def missed(figures: Sequence[Figure]) -> int:
    return sum(bool(figure.goal) and not figure.met for figure in figures)


def without_goal(figure: Figure) -> Figure:
    """Removes the goal of a figure that is meaningless on the device that ran it."""
    return replace(figure, goal="", met=True)


def read_log(text: str) -> list[dict[str, float]]:
    """Parses the output of fcdp-run --json."""
    return [json.loads(line) for line in text.splitlines()]


def tests_figure(name: str, output: str, code: int) -> Figure:
    """Makes a figure from the output of a GoogleTest program. It is not met if the program skips all its tests."""
    counts = {
        word: int((re.findall(rf"\[  {word} *\] (\d+) test", output) or ["0"])[-1])
        for word in ("PASSED", "SKIPPED", "FAILED")
    }
    value = f"{counts['PASSED']} passed, {counts['SKIPPED']} skipped, {counts['FAILED']} failed"
    return Figure(name, value, "all pass, none is skipped", code == 0 and counts["PASSED"] > 0 and not counts["SKIPPED"])


def seconds_of(log: Sequence[dict[str, float]], warm_up: int) -> float:
    """Returns the median of the timed steps, without the last one if there are others.

    A host that waits for room among the launches of a step sees the end of the step before late, and that of the last
    in time.
    """
    timed = [step["seconds"] for step in log[warm_up:]]
    return statistics.median(timed[:-1] or timed)


def relative_difference(value: float, reference: float) -> float:
    difference = abs(value - reference) / abs(reference) if reference else float("inf")
    return difference if math.isfinite(difference) else float("inf")


def rules_figure(counts: Sequence[dict[str, int]], ranks: int) -> Figure:
    """Makes a figure from what the checker of CUDA's and NCCL's rules has written for each rank."""
    goal = f"no violation on {ranks} ranks, whose calls are all seen"
    kinds = ("collectives", "copies", "captures")
    seen = len(counts) == ranks and all(rank[kind] for rank in counts for kind in kinds)
    violations = sum(rank["violations"] for rank in counts)
    calls = ", ".join(f"{sum(rank[kind] for rank in counts)} {kind}" for kind in kinds)
    return Figure("rules of CUDA and NCCL", f"{violations} violations on {len(counts)} ranks, {calls}", goal, seen and not violations)


def loss_figure(name: str, ours: Sequence[float], reference: Sequence[float], most: float = MOST_DIFFERENCE) -> Figure:
    goal = f"at most {most:g} relative, in each of {len(reference)} steps"
    if len(ours) != len(reference) or not reference:
        return Figure(name, f"{len(ours)} and {len(reference)} steps", goal, met=False)
    worst = max(map(relative_difference, ours, reference))
    return Figure(name, f"{worst:.1e}", goal, worst <= most)


def ratio_figure(name: str, ours: float, reference: float, least: float) -> Figure:
    """Makes a figure from the ratio of two rates, such as tokens per second."""
    ratio = ours / reference
    return Figure(name, f"{ratio:.2f} ({ours:,.0f} against {reference:,.0f} tokens/s)", f"at least {least:g}", ratio >= least)


def memory_figure(name: str, measured: float, planned: float) -> Figure:
    """Makes a figure from all memory in use on the device, which plans have only a part of."""
    more = measured - planned
    value = f"the plan's {planned / 2**30:.2f} GiB and {more / 2**30:.2f}"
    return Figure(name, value, f"at most {MOST_UNPLANNED / 2**30:g} GiB besides the plan", more <= MOST_UNPLANNED)


def host_figure(ours: float, eager: float, operations: int) -> Figure:
    """Makes a figure from the seconds of a step whose kernels take little time."""
    value = f"{ours / operations * 1e6:.2f} us (eager {eager / operations * 1e6:.2f} us)"
    ratio = ours / eager
    return Figure("host time of an operation", value, f"at most {MOST_OF_EAGER_HOST:g} of eager's", ratio <= MOST_OF_EAGER_HOST)


def read_calls(text: str) -> dict[str, int]:
    """Parses the output of syncs.c, which has a name and a count on each line."""
    return {name: int(count) for name, count in (line.rsplit(" ", 1) for line in text.splitlines())}


def calls_of_steps(short: dict[str, int], long: dict[str, int], steps: int) -> dict[str, float]:
    """Returns the calls per step: the difference of both runs over `steps`. Calls that both make once cancel."""
    return {name: (long[name] - short.get(name, 0)) / steps for name in long}


def waits_figure(per_step: dict[str, float]) -> Figure:
    """Makes a figure from the calls that make the host wait for the device: all that syncs.c counts but kernels."""
    name, goal = "calls of libtorch that wait, in a step", "none"
    kernels = per_step.get(KERNELS, 0)
    if not kernels:
        return Figure(name, "no kernels seen: the calls were not counted", goal, met=False)
    waits = {call: count for call, count in per_step.items() if call != KERNELS and count}
    value = ", ".join(f"{count:g} {call}" for call, count in waits.items()) or f"0, beside {kernels:g} kernels"
    return Figure(name, value, goal, not waits)
