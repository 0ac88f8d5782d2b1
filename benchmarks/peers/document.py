# SPDX-License-Identifier: Apache-2.0
"""Writes tables and pictures into the documents."""

import re
import subprocess
import textwrap
from pathlib import Path

from packages import python_with
from results import Results
from rows import ROWS
from settings import LR, Setting
from steps import BATCH, TIME
from tables import markdown, model_bytes, reasons, rows_of

BEGIN, END = "<!-- benchmarks/peers/run.py begins here -->", "<!-- benchmarks/peers/run.py ends here -->"
COLUMNS = 120
FSDP2_ROW = re.compile(r"^\| PyTorch's FSDP2 over Gloo.*$", re.MULTILINE)


def write(results: Results, page: Path, with_pictures: bool) -> None:
    """Replaces what is between the markers of the page, and draws the pictures beside it."""
    text = page.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise SystemExit(f"peers: error: {page}: expected one line '{BEGIN}' and one line '{END}'")
    pictures = _draw(results, page) if with_pictures else {}
    before, rest = text.split(BEGIN)
    page.write_text(before + "\n".join([BEGIN, "", *_body(results, pictures), END]) + rest.split(END)[1])


def groups(results: Results) -> list[tuple[str, str]]:
    """Returns the models and types that have tables."""
    return list(dict.fromkeys((setting.model, setting.dtype) for setting in results.settings()))


def _draw(results: Results, page: Path) -> dict[tuple[str, str], Path]:
    """Draws a picture for each model and type."""
    pictures = {group: page.with_name(f"{page.stem}-{'-'.join(group)}.svg") for group in groups(results)}
    program = Path(__file__).with_name("picture.py")
    for (model, dtype), path in pictures.items():
        subprocess.run([python_with("matplotlib"), program, results.path, model, dtype, path], check=True)
    return pictures


def _body(results: Results, pictures: dict[tuple[str, str], Path]) -> list[str]:
    versions = ", ".join(f"{name} {number}" for name, number in results.versions.items())
    data = f"{BATCH} sequences of {TIME} characters per micro-batch and rank"
    lines = [f"{versions}; learning rate {LR:g}, {data}.", ""]
    for model, dtype in groups(results):
        settings = [setting for setting in results.settings() if (setting.model, setting.dtype) == (model, dtype)]
        size = results.models[settings[0].step_name]
        trained = "" if size.trained == size.parameters else f", {size.trained:,} of which are trained"
        whole = model_bytes(settings[0], results)
        lines += [f"### {model}, {dtype}", "", f"{size.parameters:,} parameters{trained}; W = {whole:,} bytes.", ""]
        if path := pictures.get((model, dtype)):
            lines += [f"![Step times and bytes of {model} in {dtype}]({path.name})", ""]
        for setting in settings:
            lines += markdown(setting, results)
    lines += _reasons(results)
    return [part for line in lines for part in _wrapped(line)]


def _wrapped(line: str) -> list[str]:
    """Returns a line of a page, or several if it is a long paragraph."""
    if line.startswith(("|", "#", "!")) or len(line) <= COLUMNS:
        return [line]
    return textwrap.wrap(line, COLUMNS, break_long_words=False, break_on_hyphens=False)


def _reasons(results: Results) -> list[str]:
    found = reasons(results)
    if not found:
        return []
    lines = ["### Rows that could not run", "", "| | where | reason |", "|---|---|---|"]
    for row, causes in found.items():
        for reason, models in causes.items():
            lines.append(f"| {ROWS[row].label} | {', '.join(models)} | {reason.replace('|', chr(92) + '|')} |")
    return [*lines, ""]


def write_row(results: Results, page: Path) -> None:
    """Writes the row of FSDP2: what a node sends in a step of the example's GPT in float32, on the fastest link, where
    TCP repeats least.
    """
    settings = [x for x in results.settings() if (x.model, x.dtype, x.micro_batches) == ("gpt", "f32", 1)]
    for setting in sorted(settings, key=lambda x: -(x.megabits or float("inf"))):
        for row in rows_of(setting, results):
            if row.row.name == "fsdp2-full":
                line = _fsdp2_row(setting, results, row.sent)
                text, count = FSDP2_ROW.subn(line.replace("\\", r"\\"), page.read_text())
                if count != 1:
                    expected = "expected one row that begins with \"| PyTorch's FSDP2 over Gloo\""
                    raise SystemExit(f"peers: error: {page}: {expected}, found {count}")
                page.write_text(text)
                return
    expected = "expected results of fsdp2-full for gpt in f32 with one micro-batch"
    raise SystemExit(f"peers: error: argument --row: {expected}")


def _fsdp2_row(setting: Setting, results: Results, sent: float) -> str:
    label = "PyTorch's FSDP2 over Gloo, by the kernel's counter, with headers ([benchmarks](benchmarks.md))"
    return f"| {label} | {sent:,.0f} | {sent / model_bytes(setting, results):.3f} |"
