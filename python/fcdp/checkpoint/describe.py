# SPDX-License-Identifier: Apache-2.0
"""Describes checkpoints, as text and as JSON."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fcdp.checkpoint.compare import Comparison, Difference
from fcdp.checkpoint.errors import CheckpointError
from fcdp.checkpoint.index import FILE_NAME, read_index
from fcdp.checkpoint.sharded import open_sharded
from fcdp.checkpoint.runs import RunEntry, run_entries
from fcdp.checkpoint.state import ROLES, Checkpoint, State

_FORMATS = {
    "fcdp": "a checkpoint of fcdp-run",
    "safetensors": "safetensors",
    "dcp": "a distributed checkpoint of PyTorch",
}


NO_DIGESTS = "no digests, as an older release saved it: its contents are not compared with anything"


def table(rows: list[list[str]], numbers: set[int] = frozenset()) -> Iterator[str]:
    """Yields lines with aligned columns; the columns in `numbers` are right-aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [cell.rjust(w) if i in numbers else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths))]
        yield ("  " + "  ".join(cells)).rstrip()


# --- one checkpoint ---


def checkpoint_to_json(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "path": str(checkpoint.path),
        "format": checkpoint.format,
        "step": checkpoint.step,
        "world_size": checkpoint.world_size,
        "nodes": checkpoint.nodes,
        "plan_hash": checkpoint.plan_hash,
        "job": checkpoint.job,
        "files": [{"name": name, "bytes": bytes_} for name, bytes_ in checkpoint.files],
        "roles": _by_role(checkpoint.states),
        "states": [_state_to_json(state) for state in checkpoint.states],
        "ignored": checkpoint.ignored,
        "digests": checkpoint.verify is not None,
        "problems": checkpoint.problems,
    }


def _state_to_json(state: State) -> dict[str, Any]:
    settings = {key: getattr(state, key) for key in ("rank", "node", "updates", "trainable", "persistent")}
    return {
        "names": list(state.names),
        "role": state.role,
        "dtype": state.dtype,
        "shape": list(state.shape),
        "bytes": state.bytes,
        **{key: value for key, value in settings.items() if value is not None},
    }


def _by_role(states: list[State]) -> list[dict[str, Any]]:
    """Returns totals by role and type."""
    totals: dict[tuple[str, str], list[int]] = {}
    for state in states:
        total = totals.setdefault((state.role, state.dtype), [0, 0, 0])
        for i, amount in enumerate((1, state.elements, state.bytes)):
            total[i] += amount
    order = sorted(totals, key=lambda key: (ROLES.index(key[0]), key[1]))
    return [dict(zip(("role", "dtype", "states", "elements", "bytes"), (*key, *totals[key]))) for key in order]


def describe_checkpoint(checkpoint: Checkpoint, with_states: bool) -> Iterator[str]:
    yield f"{checkpoint.path}: {_FORMATS[checkpoint.format]}"
    if checkpoint.step is not None:
        yield f"  {checkpoint.step} steps done"
    if checkpoint.format == "fcdp":
        yield f"  saved by {checkpoint.world_size} ranks on {checkpoint.nodes} nodes, plan {checkpoint.plan_hash or '-'}"
    if checkpoint.job:
        yield "  job: " + ", ".join(f"{key}={_plain(value)}" for key, value in checkpoint.job.items())
    yield from _role_table(checkpoint.states)
    yield f"  {len(checkpoint.files)} files, {sum(size for _, size in checkpoint.files):,} bytes"
    tied = [state.names for state in checkpoint.states if len(state.names) > 1 and state.role == "value"]
    frozen = sum(state.trainable is False for state in checkpoint.states)
    yield from (f"  tied: {' = '.join(names)}" for names in tied)
    if frozen:
        yield f"  {frozen} values are frozen"
    if with_states:
        yield from _state_table(checkpoint.states)
    if checkpoint.ignored:
        yield f"  {len(checkpoint.ignored)} entries are no state: {', '.join(checkpoint.ignored[:4])}"
    if checkpoint.format == "fcdp" and checkpoint.verify is None:
        yield f"  {NO_DIGESTS}"
    yield from (f"  missing: {problem}" for problem in checkpoint.problems)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _role_table(states: list[State]) -> Iterator[str]:
    rows = [["role", "type", "states", "elements", "bytes"]]
    for total in _by_role(states):
        rows.append([total["role"], total["dtype"], *(f"{total[key]:,}" for key in ("states", "elements", "bytes"))])
    return table(rows, {2, 3, 4})


def _state_table(states: list[State]) -> Iterator[str]:
    rows = [["state", "type", "shape", "bytes"]]
    rows += [[state.label, state.dtype, str(list(state.shape)), f"{state.bytes:,}"] for state in states]
    return table(rows, {3})


# --- a run ---


def run_to_json(run: Path, with_data: bool = False) -> dict[str, Any]:
    """Describes the checkpoints of a run. `with_data` has all their data compared with its digests."""
    entries = run_entries(run)
    complete = [entry for entry in entries if entry.status == "complete"]
    return {
        "path": str(run),
        "format": "run",
        "latest": complete[-1].path.name if complete else None,
        "checkpoints": [_entry_to_json(entry, with_data) for entry in entries],
    }


def _entry_to_json(entry: RunEntry, with_data: bool) -> dict[str, Any]:
    result = {"name": entry.path.name, "step": entry.step, "status": entry.status}
    if entry.status == "complete":
        try:
            index = read_index(entry.path)
        except CheckpointError as error:
            return {**result, "status": "damaged", "problem": str(error)}
        size = sum(file.bytes for file in index.files)
        result |= {"world_size": index.world_size, "nodes": index.nodes, "bytes": size}
        if with_data and (problem := next(iter(verified(open_sharded(entry.path)).problems), None)):
            result |= {"status": "damaged", "problem": problem}
    return result


def verified(checkpoint: Checkpoint) -> Checkpoint:
    """Adds what the digests of all data say to the checkpoint's problems."""
    if checkpoint.verify is None:
        checkpoint.problems.append(NO_DIGESTS)
    else:
        checkpoint.problems += checkpoint.verify()
    return checkpoint


def describe_run(run: dict[str, Any]) -> Iterator[str]:
    """Yields lines about the result of `run_to_json`."""
    yield f"{run['path']}: the folder of a run"
    rows = [["checkpoint", "ranks", "bytes", ""]]
    notes = {
        "partial": "being written, or left by a crash",
        "removed": "being removed",
        "unknown": f"no {FILE_NAME}: no checkpoint",
    }
    for entry in run["checkpoints"]:
        note = entry.get("problem") or notes.get(entry["status"], "")
        note = note or ("latest" if entry["name"] == run["latest"] else "")
        size = f"{entry['bytes']:,}" if "bytes" in entry else ""
        rows.append([entry["name"], str(entry.get("world_size", "")), size, note])
    yield from table(rows, {1, 2})


# --- a comparison ---


def comparison_to_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "equal": comparison.is_equal,
        "compared": comparison.compared,
        "bytes": comparison.bytes,
        "different": [_difference_to_json(difference) for difference in comparison.differences],
        "only_in_first": comparison.only_in_first,
        "only_in_second": comparison.only_in_second,
        "not_compared": comparison.not_compared,
    }


def _difference_to_json(difference: Difference) -> dict[str, Any]:
    first, second = difference.first, difference.second
    return {
        "state": first.label,
        "dtypes": [first.dtype, second.dtype],
        "shapes": [list(first.shape), list(second.shape)],
        "different": difference.different,
        # JSON has no infinity.
        "absolute": _number(difference.absolute),
        "relative": _number(difference.relative),
    }


def _number(value: float | None) -> float | str | None:
    return "inf" if value == float("inf") else value


def describe_comparison(comparison: Comparison) -> Iterator[str]:
    if comparison.differences:
        rows = [["state", "type", "elements that differ", "greatest difference", "relative"]]
        rows += [_difference_row(difference) for difference in comparison.differences]
        yield from table(rows, {2, 3, 4})
    yield from (f"  only in the first: {label}" for label in comparison.only_in_first)
    yield from (f"  only in the second: {label}" for label in comparison.only_in_second)
    if comparison.not_compared:
        yield f"  not compared, because only one has a place for them: {_shorten(comparison.not_compared)}"
    if comparison.is_equal:
        yield f"equal: {comparison.compared} states, {comparison.bytes:,} bytes"
    else:
        lonely = len(comparison.only_in_first) + len(comparison.only_in_second)
        text = f"different: {len(comparison.differences)} of {comparison.compared} states"
        yield text + (f", and {lonely} in one only" if lonely else "")


def _shorten(labels: list[str]) -> str:
    return ", ".join(labels[:4]) + (f" and {len(labels) - 4} more" if len(labels) > 4 else "")


def _difference_row(difference: Difference) -> list[str]:
    first, second = difference.first, difference.second
    types = first.dtype if first.dtype == second.dtype else f"{first.dtype}, {second.dtype}"
    if difference.different is None:
        return [first.label, types, f"{list(first.shape)}, {list(second.shape)}", "", ""]
    count = f"{difference.different} of {first.elements}"
    return [first.label, types, count, f"{difference.absolute:.3g}", f"{difference.relative:.3g}"]
