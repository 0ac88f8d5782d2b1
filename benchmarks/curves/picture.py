# SPDX-License-Identifier: Apache-2.0
"""Draws the loss curves."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from models import PRECISIONS, Case
from results import Result

POINTS = 100  # of a curve, each the mean over some steps


def draw(results: dict[Case, Result], path: Path) -> None:
    # Files of equal curves are equal.
    matplotlib.rcParams["svg.hashsalt"] = "curves"
    matplotlib.rcParams["svg.fonttype"] = "none"
    models = list(dict.fromkeys(case.model for case in results))
    precisions = list(dict.fromkeys(case.precision for case in results))
    figure = Figure(figsize=(5.5 * len(models), 6 * len(precisions)), layout="constrained")
    parts = figure.subfigures(len(precisions), len(models), squeeze=False)
    for case, result in results.items():
        part = parts[precisions.index(case.precision), models.index(case.model)]
        upper, lower = part.subplots(2, 1, sharex="col", height_ratios=(3, 1))
        _draw_losses(upper, case, result)
        _draw_differences(lower, result)
    figure.savefig(path, metadata={"Date": None})


def _draw_losses(axes: Axes, case: Case, result: Result) -> None:
    axes.set_ylabel("loss (nats per character)")
    axes.set_title(f"{case.model}, {PRECISIONS[case.precision]}", fontsize=10)
    for seed, curve in result.plain.items():
        label = "PyTorch" if seed == 0 else "PyTorch, other seeds" if seed == 1 else None
        axes.plot(*_means(curve.losses), color="tab:blue" if seed == 0 else "lightsteelblue", label=label, linewidth=2)
    axes.plot(*_means(result.job.curve.losses), "--", color="tab:orange", label="fcdp", linewidth=1)
    expected, found = result.plain[0].evaluations, result.job.curve.evaluations
    axes.plot(expected.keys(), expected.values(), "o", color="tab:blue", fillstyle="none", label="PyTorch, held-out text")
    axes.plot(found.keys(), found.values(), "x", color="tab:orange", label="fcdp, held-out text")
    for place, step in enumerate(result.job.resumed_at):
        axes.axvline(step, color="gray", linewidth=0.8, linestyle=":", label=None if place else "resumed after a kill")
    axes.legend(fontsize=8)


def _draw_differences(axes: Axes, result: Result) -> None:
    steps, found = _means(result.job.curve.losses)
    axes.plot(steps, found - _means(result.plain[0].losses)[1], color="tab:orange", linewidth=1)
    axes.ticklabel_format(axis="y", style="scientific", scilimits=(0, 0))
    axes.set_ylabel("difference")
    axes.set_xlabel("step")


def _means(losses: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Means over consecutive steps, and the middle of each."""
    parts = np.array_split(np.arange(1, len(losses) + 1), min(POINTS, len(losses)))
    return np.array([part.mean() for part in parts]), np.array([np.mean(np.array(losses)[part - 1]) for part in parts])
