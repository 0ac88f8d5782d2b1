# SPDX-License-Identifier: Apache-2.0
"""Reads checkpoints as docs/checkpoints.md describes them, without the code of fcdp."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open


States = dict[tuple[str, str], torch.Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """`states` by (role, name); `own` by (role, name, number), for states that each rank or each node has of its
    own."""

    index: dict[str, Any]
    states: States
    own: dict[tuple[str, str, int], torch.Tensor]


DTYPES = {
    "F32": torch.float32,
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "I64": torch.int64,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


def folders(run: Path) -> list[str]:
    return sorted(path.name for path in run.iterdir() if path.is_dir())


def owner_of(piece: dict[str, int]) -> tuple[str, int]:
    """Returns the kind and number of what has a piece for itself, or ("", -1) if all ranks have it together."""
    return next(((kind, piece[kind]) for kind in ("rank", "node") if kind in piece), ("", -1))


def read_checkpoint(path: Path) -> Checkpoint:
    index = json.loads((path / "index.json").read_text())
    files = []
    for file in index["files"]:
        assert (path / file["name"]).stat().st_size == file["bytes"]
        files.append(safe_open(path / file["name"], framework="pt"))
    states, own = {}, {}
    for state in index["states"]:
        role, name, dtype = state["role"], state["names"][0], DTYPES[state["dtype"]]
        numel = torch.Size(state["shape"]).numel()
        for kind, number in sorted({owner_of(piece) for piece in state["pieces"]}) or [("", -1)]:
            value, covered = torch.empty(numel, dtype=dtype), torch.zeros(numel, dtype=torch.int64)
            for piece in state["pieces"]:
                if owner_of(piece) != (kind, number):
                    continue
                suffix = {"": "", "rank": f"#{number}", "node": f"#node{number}"}[kind]
                key = f"{role}/{name}@{piece['offset']}{suffix}"
                part = slice(piece["offset"], piece["offset"] + piece["length"])
                value[part] = files[piece["file"]].get_tensor(key)
                covered[part] += 1
            assert (covered == 1).all(), (role, name)
            if kind:
                own[role, name, number] = value.reshape(state["shape"])
            else:
                states[role, name] = value.reshape(state["shape"])
    return Checkpoint(index, states, own)


def assert_equal_tensors(one: dict[Any, torch.Tensor], other: dict[Any, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for key in one:
        assert one[key].dtype == other[key].dtype and one[key].equal(other[key]), key


def updates(checkpoint: Checkpoint) -> dict[str, tuple[int, bool]]:
    """Returns, by parameter, its number of updates and whether it is trained."""
    values = [state for state in checkpoint.index["states"] if state["role"] == "value"]
    return {state["names"][0]: (state["updates"], state["trainable"]) for state in values}
