# SPDX-License-Identifier: Apache-2.0
"""Writes PyTorch's distributed checkpoints by PyTorch's own writer, reading states as they are written."""

import io
import json
import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
)
from torch.distributed.checkpoint.planner import SavePlan, TensorWriteData, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from fcdp.checkpoint import dcp_names
from fcdp.checkpoint.dcp_names import Prefixes, key_of
from fcdp.checkpoint.dtypes import TORCH_TYPES, item_bytes
from fcdp.checkpoint.errors import CheckpointError
from fcdp.checkpoint.optimizer_groups import param_groups
from fcdp.checkpoint.state import Checkpoint, State

# PyTorch's writer keeps a file's tensors until the file is complete. A tensor's pieces are torch.save files, which are
# loaded whole.
_FILE_BYTES = 128 << 20
_PIECE_BYTES = 32 << 20

Entries = dict[dcp_names.KeyPath, State | Any]  # Values that are not states are stored as objects.


def write_dcp(folder: Path, checkpoint: Checkpoint, prefixes: Prefixes, optimizer: str | None) -> None:
    """Writes into an empty folder. `optimizer` gives the settings of the parameter groups, such as "adamw,lr=1e-3"."""
    entries = _entries(checkpoint, prefixes)
    if len({key_of(path) for path in entries}) < len(entries):
        found = "states that PyTorch would give one name"
        raise CheckpointError(checkpoint.path, "states with different names", found, "choose other prefixes")
    if optimizer is not None:
        trained = [state.name for state in checkpoint.states if state.role == "value" and state.trainable is not False]
        entries.update(param_groups(optimizer, trained, prefixes))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dcp.save({}, storage_writer=_Writer(folder), planner=_Planner(entries), no_dist=True)
    except CheckpointException as error:
        # A full disk, or a file that was damaged after its header.
        raise next(iter(error.failures.values()))[0] from None


def _entries(checkpoint: Checkpoint, prefixes: Prefixes) -> Entries:
    entries: Entries = {}
    described = []
    updates = {state.name: state.updates for state in checkpoint.states if state.role == "value"}
    for state in checkpoint.states:
        path = dcp_names.path_of(state, prefixes)
        entries[path] = state
        described.append(_describe(state, key_of(path)))
        if state.is_model and not state.owner:
            # A model's state_dict has tied parameters under each of their names.
            entries.update({prefixes.model_path(alias): state for alias in state.names[1:]})
        if state.role in ("exp_avg", "row_var", "variance"):
            step = torch.tensor([float(updates.get(state.name) or 0)])
            entries[prefixes.optimizer_path(state.name, dcp_names.STEP)] = _constant(step, ())
    index = {
        "step": checkpoint.step or 0,
        "world_size": checkpoint.world_size,
        "nodes": checkpoint.nodes,
        "plan_hash": checkpoint.plan_hash,
        "job": checkpoint.job,
        "states": described,
    }
    data = torch.frombuffer(bytearray(json.dumps(index).encode()), dtype=torch.uint8)
    entries[dcp_names.INDEX] = _constant(data, (data.numel(),))
    return entries


def _describe(state: State, key: str) -> dict[str, Any]:
    settings = {name: getattr(state, name) for name in ("rank", "node", "updates", "trainable", "persistent")}
    known = {name: value for name, value in settings.items() if value is not None}
    return {"names": state.names, "role": state.role, "key": key, **known}


def _constant(data: torch.Tensor, shape: tuple[int, ...]) -> State:
    dtype = "U8" if data.dtype == torch.uint8 else "F32"
    return State(("",), "value", dtype, shape, lambda offset, length: data[offset : offset + length])


class _Planner(dcp.DefaultSavePlanner):
    """Plans the states as if they were tensors in memory, and reads each piece when the writer asks for it."""

    def __init__(self, entries: Entries):
        super().__init__()
        self._entries = {key_of(path): value for path, value in entries.items()}
        self._paths = {key_of(path): path for path in entries}

    def set_up_planner(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
        self.is_coordinator = True

    def create_local_plan(self) -> SavePlan:
        items = [item for key, value in self._entries.items() for item in _items(key, value)]
        self.plan = SavePlan(items, planner_data=self._paths)
        return self.plan

    def resolve_data(self, write_item: WriteItem) -> torch.Tensor | io.BytesIO:
        value = self._entries[write_item.index.fqn]
        if not isinstance(value, State):
            stream = io.BytesIO()
            torch.save(value, stream)
            return stream
        chunk = write_item.tensor_data.chunk
        row = math.prod(value.shape[1:])
        offset = chunk.offsets[0] * row if value.shape else 0
        return value.read(offset, math.prod(chunk.sizes)).reshape(chunk.sizes)


def _items(key: str, value: State | Any) -> Iterator[WriteItem]:
    if not isinstance(value, State):
        yield WriteItem(index=MetadataIndex(key), type=WriteItemType.BYTE_IO)
        return
    shape = value.shape
    rows = shape[0] if shape else 1
    row_bytes = max(1, math.prod(shape[1:]) * item_bytes(value.dtype))
    step = max(1, _PIECE_BYTES // row_bytes)
    kind = WriteItemType.TENSOR if rows <= step else WriteItemType.SHARD
    for first in range(0, max(1, rows), step):
        offsets = torch.Size((first, *(0 for _ in shape[1:])) if shape else ())
        sizes = torch.Size((min(step, rows - first), *shape[1:]) if shape else ())
        yield WriteItem(
            index=MetadataIndex(key, offsets),
            type=kind,
            tensor_data=TensorWriteData(
                chunk=ChunkStorageMetadata(offsets, sizes),
                properties=TensorProperties(dtype=TORCH_TYPES[value.dtype]),
                size=torch.Size(shape),
            ),
        )


class _Writer(dcp.FileSystemWriter):
    """Writes files of limited size, as several ranks would."""

    def __init__(self, folder: Path):
        super().__init__(folder, sync_files=False)

    def write_data(self, plan: SavePlan, planner: dcp.SavePlanner) -> Future[list[WriteResult]]:
        plans = [replace(plan, items=items, storage_data=None) for items in _split(plan.items)]
        results = []
        for part in self.prepare_global_plan(plans):
            results += super().write_data(part, planner).wait()
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done

    def storage_meta(self) -> StorageMeta:
        # PyTorch's has the path of the folder, which gets its name later.
        return StorageMeta()


def _split(items: list[WriteItem]) -> Iterator[list[WriteItem]]:
    file: list[WriteItem] = []
    size = 0
    for item in items:
        data = item.tensor_data
        bytes_ = math.prod(data.chunk.sizes) * data.properties.dtype.itemsize if data else 0
        if file and size + bytes_ > _FILE_BYTES:
            yield file
            file, size = [], 0
        file.append(item)
        size += bytes_
    yield file
