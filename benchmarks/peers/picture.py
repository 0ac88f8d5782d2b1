# SPDX-License-Identifier: Apache-2.0
"""Draws step times and bytes of a model in a type: picture.py RESULTS MODEL DTYPE FILE. run.py starts it."""

import sys
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from results import Figures, Results
from rows import ROWS, Compiled
from settings import Setting
from tables import model_bytes, rows_of

HEIGHT = 0.24  # inches of a bar


def draw(results: Results, settings: list[Setting], path: Path) -> None:
    # Files of equal results are equal.
    matplotlib.rcParams["svg.hashsalt"] = "peers"
    matplotlib.rcParams["svg.fonttype"] = "none"
    counts = list(dict.fromkeys(setting.micro_batches for setting in settings))
    links = list(dict.fromkeys(setting.megabits for setting in settings))
    found = {(setting.micro_batches, setting.megabits): rows_of(setting, results) for setting in settings}
    names = {count: _names([found.get((count, link), []) for link in links]) for count in counts}
    heights = [1.2 + HEIGHT * len(names[count]) for count in counts]
    figure = Figure(figsize=(4 + 2.6 * (len(links) + 1), sum(heights)), layout="constrained")
    axes = figure.subplots(len(counts), len(links) + 1, squeeze=False, sharey="row", height_ratios=heights)
    for line, count in zip(axes, counts):
        some = next(setting for setting in settings if setting.micro_batches == count)
        # Bytes are those of any link, as they do not depend on it.
        every = {row.row.name: row for link in links for row in found.get((count, link), [])}
        whole = model_bytes(some, results)
        _bars(line[0], names[count], {name: row.sent / whole for name, row in every.items()})
        line[0].set_title(f"W that a node sends per step, K = {count}", fontsize=9)
        for place, link in zip(line[1:], links):
            rows: list[Figures] = found.get((count, link), [])
            _bars(place, names[count], {row.row.name: row.seconds for row in rows})
            place.set_title(f"s per step, {'no limit' if link is None else f'{link} Mbit/s'}", fontsize=9)
    figure.savefig(path, metadata={"Date": None})


def _names(tables: list[list[Figures]]) -> list[str]:
    present = {row.row.name for rows in tables for row in rows}
    return [name for name in ROWS if name in present]


def _bars(axes: Axes, names: list[str], values: dict[str, float]) -> None:
    for place, name in enumerate(names):
        if name in values:
            exact = "tab:blue" if ROWS[name].exact else "lightsteelblue"
            axes.barh(place, values[name], color="tab:orange" if isinstance(ROWS[name], Compiled) else exact)
            beside = dict(xytext=(2, 0), textcoords="offset points", va="center", fontsize=7)
            axes.annotate(f"{values[name]:.3g}", (values[name], place), **beside)
    axes.set_yticks(range(len(names)), [ROWS[name].label.replace("`", "") for name in names], fontsize=7)
    axes.tick_params(axis="x", labelsize=7)
    axes.margins(x=0.18)
    axes.set_ylim(len(names) - 0.5, -0.5)


if __name__ == "__main__":
    file, model, dtype, out = sys.argv[1:]
    kept = Results.read(Path(file))
    draw(kept, [setting for setting in kept.settings() if (setting.model, setting.dtype) == (model, dtype)], Path(out))
