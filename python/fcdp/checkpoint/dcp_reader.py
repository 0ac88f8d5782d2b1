# SPDX-License-Identifier: Apache-2.0
"""Reads PyTorch's distributed checkpoints by PyTorch's own reader, one state at a time."""

import contextlib
import math
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, MetadataIndex, TensorStorageMetadata

from fcdp.checkpoint import dcp_names
from fcdp.checkpoint.dcp_metadata import METADATA, Reader, read_metadata
from fcdp.checkpoint.dcp_names import Prefixes
from fcdp.checkpoint.dtypes import NAMES
from fcdp.checkpoint.errors import CheckpointError
from fcdp.checkpoint.fields import Fields, parse_json
from fcdp.checkpoint.index import GREATEST_WORLD
from fcdp.checkpoint.pieces import box_problem
from fcdp.checkpoint.state import OPTIMIZER_ROLES, ROLES, Checkpoint, Reader as ReadRange, State

_DAMAGED = "the folder is damaged: use another copy"


def open_dcp(folder: Path, prefixes: Prefixes | None = None) -> Checkpoint:
    """Reads the metadata. `prefixes` are found by the metadata if they are not given."""
    stored = _Folder(folder)
    checkpoint = Checkpoint(folder, "dcp", [], problems=list(stored.problems()))
    names = {METADATA, *(info.relative_path for info in stored.storage.values())}
    checkpoint.files = [(name, (folder / name).stat().st_size) for name in sorted(names) if (folder / name).is_file()]
    if checkpoint.problems:
        return checkpoint
    if dcp_names.key_of(dcp_names.INDEX) in stored.tensors:
        _read_described(stored, checkpoint)
    else:
        _read_undescribed(stored, checkpoint, prefixes)
    return checkpoint


class _Folder:
    """The tensors of a folder by their flat names. Keeps the one that was read last."""

    def __init__(self, path: Path):
        self.path = path
        self._metadata = read_metadata(path)
        self._reader = Reader(path, self._metadata)
        self._last: tuple[str, torch.Tensor] | None = None
        with self._damage():
            entries = dict(self._metadata.state_dict_metadata)
            self.storage = dict(self._metadata.storage_data)
            self.tensors = {key: md for key, md in entries.items() if isinstance(md, TensorStorageMetadata)}
            self.objects = [key for key, md in entries.items() if isinstance(md, BytesStorageMetadata)]
            for key, tensor in self.tensors.items():
                if tensor.properties.dtype not in NAMES:
                    raise ValueError(f"'{key}' of type {tensor.properties.dtype}")
            for info in self.storage.values():
                if Path(info.relative_path).name != info.relative_path:
                    raise ValueError(f"a file '{info.relative_path}' in another folder")

    @contextlib.contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            found = str(error) or type(error).__name__
            raise CheckpointError(self.path / METADATA, "tensors and their places", found, _DAMAGED) from None

    def top_keys(self) -> set[str]:
        """Returns the keys of the dictionary that was saved, as far as they had dictionaries."""
        paths = self._metadata.planner_data
        if not isinstance(paths, dict):
            return set()
        return {str(path[0]) for path in paths.values() if isinstance(path, tuple) and len(path) > 1}

    def problems(self) -> Iterator[str]:
        """Yields what is missing: pieces of tensors, and bytes of files."""
        with self._damage():
            problems = []
            sizes: dict[str, int | None] = {}
            for key, tensor in self.tensors.items():
                boxes = [(tuple(chunk.offsets), tuple(chunk.sizes)) for chunk in tensor.chunks]
                if problem := box_problem(boxes, tuple(tensor.size)):
                    problems.append(f"{key}: {problem}")
                for chunk in tensor.chunks:
                    if problem := self._place_problem(key, tensor, chunk, sizes):
                        problems.append(problem)
        yield from dict.fromkeys(problems)

    def _place_problem(self, key: str, tensor: Any, chunk: Any, sizes: dict[str, int | None]) -> str | None:
        info = self.storage.get(MetadataIndex(key, chunk.offsets))
        if info is None:
            return f"{key}: the piece at {list(chunk.offsets)} has no place in a file"
        name = info.relative_path
        if name not in sizes:
            sizes[name] = (self.path / name).stat().st_size if (self.path / name).is_file() else None
        size = sizes[name]
        if size is None:
            return f"{name}: the file is missing"
        if info.offset < 0 or info.offset + info.length > size:
            return f"{name}: {size} bytes instead of at least {info.offset + info.length}"
        least = math.prod(chunk.sizes) * tensor.properties.dtype.itemsize
        if not getattr(info, "transform_descriptors", None) and info.length < least:
            return f"{key}: {info.length} bytes instead of at least {least}"
        return None

    def load(self, keys: Iterable[str]) -> dict[str, torch.Tensor]:
        """Returns whole tensors."""
        keys = list(keys)
        try:
            loaded: dict[str, Any] = {
                key: torch.empty(self.tensors[key].size, dtype=self.tensors[key].properties.dtype) for key in keys
            }
            planner = dcp.DefaultLoadPlanner(flatten_state_dict=False)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                dcp.load(loaded, storage_reader=self._reader, planner=planner, no_dist=True)
        except CheckpointException as error:
            cause = next(iter(error.failures.values()))[0]
            raise self._unreadable(keys, cause) from None
        except Exception as error:
            raise self._unreadable(keys, error) from None
        return loaded

    def _unreadable(self, keys: list[str], cause: BaseException) -> CheckpointError:
        if isinstance(cause, OSError):
            raise cause from None
        found = " ".join((str(cause) or type(cause).__name__).split())
        return CheckpointError(self.path, f"the data of '{keys[0]}'", found[:200], _DAMAGED)

    def range_reader(self, key: str) -> ReadRange:
        def read(offset: int, length: int) -> torch.Tensor:
            if self._last is None or self._last[0] != key:
                self._last = None
                self._last = (key, self.load([key])[key].reshape(-1))
            return self._last[1][offset : offset + length]

        return read

    def state(self, key: str, names: tuple[str, ...], role: str, **settings: Any) -> State:
        tensor = self.tensors[key]
        dtype, shape = NAMES[tensor.properties.dtype], tuple(tensor.size)
        return State(names, role, dtype, shape, self.range_reader(key), **settings)


def _read_described(stored: _Folder, checkpoint: Checkpoint) -> None:
    """Reads what fcdp-ckpt has written: an index says which tensor is which state."""
    key = dcp_names.key_of(dcp_names.INDEX)
    text = stored.load([key])[key]
    fields = parse_json(bytes(text.reshape(-1).tolist()), stored.path, _DAMAGED)
    checkpoint.step = fields.count("step")
    checkpoint.world_size = fields.count("world_size", least=1, most=GREATEST_WORLD)
    checkpoint.nodes = fields.count("nodes", least=1, most=checkpoint.world_size)
    checkpoint.plan_hash, checkpoint.job = fields.text("plan_hash"), fields.object("job")
    for entry in fields.objects("states"):
        checkpoint.states.append(_described_state(stored, entry, checkpoint))


def _described_state(stored: _Folder, entry: Fields, checkpoint: Checkpoint) -> State:
    names, role, key = entry.texts("names"), entry.text("role"), entry.text("key")
    if not names or role not in ROLES:
        raise entry.error("a state with names and a role", [list(names), role])
    if key not in stored.tensors:
        raise entry.error("a tensor of this folder", key, "key")
    return stored.state(
        key, names, role,
        rank=entry.optional_count("rank", most=checkpoint.world_size - 1),
        node=entry.optional_count("node", most=checkpoint.nodes - 1),
        updates=entry.optional_count("updates"),
        trainable=entry.flag("trainable"),
        persistent=entry.flag("persistent"),
    )  # fmt: skip


def _read_undescribed(stored: _Folder, checkpoint: Checkpoint, prefixes: Prefixes | None) -> None:
    """Reads what a PyTorch script has saved. It does not say which tensors are buffers, or which names are tied."""
    checkpoint.scope = "pytorch"
    prefixes = prefixes or Prefixes(model="model" if "model" in stored.top_keys() else "")
    model, optimizer = (f"{prefix}." if prefix else "" for prefix in (prefixes.model, prefixes.optimizer))
    weights: dict[str, str] = {}
    moments: list[tuple[str, str, str]] = []
    steps: dict[str, str] = {}
    for key, tensor in stored.tensors.items():
        if key.startswith(f"{optimizer}state."):
            name, _, kind = key.removeprefix(f"{optimizer}state.").rpartition(".")
            if kind in OPTIMIZER_ROLES:
                moments.append((key, name, kind))
            elif kind == dcp_names.STEP and math.prod(tensor.size) == 1:
                steps[name] = key
            else:
                checkpoint.ignored.append(key)
        elif key.startswith(f"{optimizer}param_groups."):
            continue
        elif key.startswith(model):
            weights[key.removeprefix(model)] = key
        else:
            checkpoint.ignored.append(key)
    checkpoint.ignored += [key for key in stored.objects if not key.startswith(f"{optimizer}param_groups.")]
    if not weights:
        found = f"'{next(iter(stored.tensors))}'" if stored.tensors else "no tensor"
        advice = "give --model-prefix, the keys that lead to the model in the saved dictionary"
        raise CheckpointError(stored.path, f"tensors whose names begin with '{model}'", found, advice)

    values = stored.load(steps.values()) if steps else {}
    updates = {name: int(values[key]) for name, key in steps.items()}
    trained = {name for _, name, _ in moments} | set(updates)
    checkpoint.step = max(updates.values(), default=None)
    for name, key in weights.items():
        trainable = name in trained if trained else None
        checkpoint.states.append(
            stored.state(key, (name,), "value", updates=max(0, updates.get(name, 0)), trainable=trainable)
        )
    for key, name, kind in moments:
        checkpoint.states.append(stored.state(key, (name,), kind))

