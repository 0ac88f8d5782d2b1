# SPDX-License-Identifier: Apache-2.0
"""Tables of the results, as text and in Markdown."""

import os

from results import Figures, Results, faults, figures
from rows import DTYPES, FIRST, ROWS
from settings import NODES, RANKS_PER_NODE, Setting

IDLE = 0.15
"""Processors that other programs may use without being mentioned."""
BYTES = {"f32": 4, "bf16": 2}


def rows_of(setting: Setting, results: Results) -> list[Figures]:
    """Returns the rows that ran and train what fcdp trains, in the order of the list of rows."""
    runs = {name: found for name, found in results.of(setting).items() if found}
    if FIRST.name not in runs:
        return []
    model, first = results.models[setting.step_name], runs[FIRST.name][0].losses
    names = [name for name in ROWS if name in runs and model.tried[name].run]
    return [
        figures(name, model.tried[name], runs[name], first)
        for name in names
        if not faults(setting, name, model.tried[name], runs[name], first)
    ]


def wrong_rows(setting: Setting, results: Results) -> list[str]:
    runs = {name: found for name, found in results.of(setting).items() if found}
    if FIRST.name not in runs:
        return [f"{setting.name}: no runs of {FIRST.name}, which others are compared with"] if runs else []
    model, first = results.models[setting.step_name], runs[FIRST.name][0].losses
    return [
        fault
        for name, found in runs.items()
        if model.tried[name].run
        for fault in faults(setting, name, model.tried[name], found, first)
    ]


def reasons(results: Results) -> dict[str, dict[str, list[str]]]:
    """Returns the reasons for which rows could not run, each with the models where that is so, by row."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, model in results.models.items():
        for row, tried in model.tried.items():
            if tried.reason is not None:
                found.setdefault(row, {}).setdefault(tried.reason, []).append(name)
    return {row: found[row] for row in ROWS if row in found}


def title(setting: Setting) -> str:
    link = "no limit" if setting.megabits is None else f"{setting.megabits} Mbit/s"
    count = "1 micro-batch" if setting.micro_batches == 1 else f"{setting.micro_batches} micro-batches"
    return f"{setting.model}, {DTYPES[setting.dtype]}, {count}, {link} between nodes"


def model_bytes(setting: Setting, results: Results) -> int:
    """W: the bytes of the model in the type in which it is gathered."""
    return results.models[setting.step_name].parameters * BYTES[setting.dtype]


def markdown(setting: Setting, results: Results) -> list[str]:
    found, whole = rows_of(setting, results), model_bytes(setting, results)
    lines = [
        f"**{title(setting)}**",
        "",
        "| | s per step | times fcdp | a node sends per step | in W | memory of a rank | loss | differs by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in found:
        difference = f"{row.difference:.0e}" if row.row.exact else "not exact"
        cells = [
            row.row.label,
            f"{row.seconds:.2f}",
            f"{row.seconds / found[0].seconds:.2f}",
            f"{row.sent:,.0f} bytes" if row is found[0] else f"{row.sent:,.0f}",
            f"{row.sent / whole:.3f}",
            f"{row.peak / 1e6:,.0f} MB" if row is found[0] else f"{row.peak / 1e6:,.0f}",
            f"{row.last_loss:.5f}",
            "" if row is found[0] else difference,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", *_load(setting, results, found)]


def _load(setting: Setting, results: Results, found: list[Figures]) -> list[str]:
    """Returns the sentence that says which rows ran beside other programs."""
    runs = results.of(setting)
    others = {row.row.label: max(run.others for run in runs[row.row.name]) for row in found}
    loaded = {label: load for label, load in others.items() if not load <= IDLE}
    if not loaded:
        return []
    share = f"{max(loaded.values()):.1f} of the machine's {os.cpu_count()} processors"
    return [f"Other programs used up to {share} meanwhile, so that these times are too long: {', '.join(loaded)}.", ""]


def print_table(setting: Setting, results: Results) -> None:
    found, whole = rows_of(setting, results), model_bytes(setting, results)
    print(f"\n{title(setting)}; {NODES} x {RANKS_PER_NODE} ranks, W = {whole:,} bytes")
    print(f"{'':24}  seconds  ratio  sent per node   in W memory, MB      loss  differs")
    for row in found:
        difference = f"{row.difference:8.1e}" if row.row.exact else "       -"
        print(
            f"{row.row.name:24} {row.seconds:8.2f} {row.seconds / found[0].seconds:6.2f} {row.sent:14,.0f} "
            f"{row.sent / whole:6.3f} {row.peak / 1e6:10.0f} {row.last_loss:9.5f} {difference}"
        )
    print(flush=True)
