# SPDX-License-Identifier: Apache-2.0
"""Weights as Hugging Face stores them: a safetensors file, or a folder of such files with an index.

A tensor with several names is stored once. The file's metadata maps the other names to it, as safetensors' save_model
does. The metadata's entry "fcdp" has what the format has no place for, so that a checkpoint can be made from it again.
"""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fcdp.checkpoint.atomic import new_file, new_folder
from fcdp.checkpoint.errors import CheckpointError
from fcdp.checkpoint.fields import Fields, parse_json, read_json
from fcdp.checkpoint.regular import require_file
from fcdp.checkpoint.safetensors_files import StoredTensor, metadata_of, tensors_of, write_file
from fcdp.checkpoint.state import Checkpoint, State

INDEX_SUFFIX = ".safetensors.index.json"
_FILE, _INDEX, _CONFIG = "model.safetensors", "model.safetensors.index.json", "config.json"
_NOTES = "fcdp"
_ADVICE = "the index is damaged: use another copy"


def open_file(path: Path) -> Checkpoint:
    """Reads the header of one file."""
    return _make_checkpoint(path, {path: tensors_of(path)}, [])


def open_folder(index: Path) -> Checkpoint:
    """Reads the index of a sharded folder, and the header of every shard. Missing pieces are in `problems`."""
    weights = read_json(index, _ADVICE).object("weight_map")
    places = Fields(weights, index, "weight_map", _ADVICE)
    files = sorted({places.text(name) for name in weights})
    tensors: dict[Path, dict[str, StoredTensor]] = {}
    problems = []
    for name in files:
        path = index.parent / name
        if Path(name).name != name:
            raise places.error("names of files in the same folder", name)
        if path.is_file():
            tensors[path] = tensors_of(path)
        else:
            problems.append(f"{name}: the file is missing")
    for name, file in weights.items():
        found = tensors.get(index.parent / file)
        if found is not None and name not in found:
            problems.append(f"{file}: there is no tensor '{name}'")
    # Tensors that the index does not name are not part of the model.
    kept = {
        path: {name: tensor for name, tensor in found.items() if weights.get(name) == path.name}
        for path, found in tensors.items()
    }
    checkpoint = _make_checkpoint(index.parent, kept, problems)
    checkpoint.files.append((index.name, index.stat().st_size))
    return checkpoint


def _make_checkpoint(
    path: Path, tensors: Mapping[Path, dict[str, StoredTensor]], problems: list[str]
) -> Checkpoint:
    checkpoint = Checkpoint(path, "safetensors", [], problems=problems, scope="weights")
    stored = {name for found in tensors.values() for name in found}
    for file, found in tensors.items():
        checkpoint.files.append((file.name, file.stat().st_size))
        metadata = metadata_of(file)
        aliases = {alias: kept for alias, kept in metadata.items() if alias not in ("format", _NOTES)}
        notes = _Notes.read(metadata, file)
        checkpoint.step = notes.step if checkpoint.step is None else checkpoint.step
        for name, tensor in found.items():
            names = (name, *(alias for alias, kept in aliases.items() if kept == name and alias not in stored))
            role = "buffer" if name in notes.buffers else "value"
            checkpoint.states.append(
                State(
                    names, role, tensor.dtype, tensor.shape, tensor.read,
                    updates=0 if role == "value" else None,
                    trainable=notes.trainable(name) if role == "value" else None,
                    persistent=True if role == "buffer" else None,
                )  # fmt: skip
            )
    return checkpoint


@dataclass(frozen=True)
class _Notes:
    """Facts of a checkpoint of fcdp-run on the weights in one file."""

    step: int | None
    buffers: frozenset[str]
    frozen: frozenset[str]
    are_known: bool

    def trainable(self, name: str) -> bool | None:
        return name not in self.frozen if self.are_known else None

    @staticmethod
    def read(metadata: Mapping[str, str], path: Path) -> "_Notes":
        if _NOTES not in metadata:
            return _Notes(None, frozenset(), frozenset(), False)
        fields = parse_json(metadata[_NOTES].encode(), path, "the metadata is damaged: use another copy")
        step = fields.optional_count("step")
        return _Notes(step, frozenset(fields.texts("buffers")), frozenset(fields.texts("frozen")), True)


def _metadata(checkpoint: Checkpoint, states: Iterable[State]) -> dict[str, str]:
    states = list(states)
    aliases = {alias: state.name for state in states for alias in state.names[1:]}
    metadata = {"format": "pt", **aliases}
    if all(state.role == "buffer" or state.trainable is not None for state in states):
        notes: dict[str, Any] = {} if checkpoint.step is None else {"step": checkpoint.step}
        notes["buffers"] = [state.name for state in states if state.role == "buffer"]
        notes["frozen"] = [state.name for state in states if state.trainable is False]
        metadata[_NOTES] = json.dumps(notes)
    return metadata


def weights_of(checkpoint: Checkpoint) -> Iterator[State]:
    """Yields the states that the format can hold: values and persistent buffers, of the first rank or node."""
    return (state for state in checkpoint.states if state.is_model and not state.owner)


def write_one(path: Path, checkpoint: Checkpoint) -> None:
    """Writes one file."""
    with new_file(path) as file:
        _write_states(file, path, checkpoint, list(weights_of(checkpoint)))


def _write_states(file: Any, path: Path, checkpoint: Checkpoint, states: list[State]) -> None:
    write_file(file, path, [(state.name, state) for state in states], _metadata(checkpoint, states))


def write_folder(path: Path, checkpoint: Checkpoint, shard_bytes: int | None, config: Path | None) -> None:
    """Writes a folder that Transformers loads: one file, or shards of at most `shard_bytes` with their index.

    A state that is larger gets a shard of its own.
    """
    shards = list(_split(weights_of(checkpoint), shard_bytes))
    if config is not None:
        parse_json(require_file(config).read_bytes(), config, "name the config.json of the model")
    with new_folder(path) as folder:
        if config is not None:
            shutil.copyfile(config, folder / _CONFIG)
        names = [_FILE]
        if len(shards) > 1:
            names = [f"model-{i + 1:05}-of-{len(shards):05}.safetensors" for i in range(len(shards))]
            _write_index(folder / _INDEX, names, shards)
        for name, states in zip(names, shards):
            with open(folder / name, "wb") as file:
                _write_states(file, path / name, checkpoint, states)


def _write_index(path: Path, names: list[str], shards: list[list[State]]) -> None:
    total = sum(state.bytes for states in shards for state in states)
    places = {state.name: name for name, states in zip(names, shards) for state in states}
    index = {"metadata": {"total_size": total}, "weight_map": places}
    path.write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")


def _split(states: Iterable[State], shard_bytes: int | None) -> Iterator[list[State]]:
    shard: list[State] = []
    size = 0
    for state in states:
        if shard and shard_bytes is not None and size + state.bytes > shard_bytes:
            yield shard
            shard, size = [], 0
        shard.append(state)
        size += state.bytes
    yield shard


def find_index(folder: Path) -> Path | None:
    """Returns the index of a sharded folder. Raises CheckpointError if there are several."""
    return _only(folder, INDEX_SUFFIX)


def find_file(folder: Path) -> Path | None:
    """Returns the weights of a folder with one file."""
    return folder / _FILE if (folder / _FILE).is_file() else _only(folder, ".safetensors")


def _only(folder: Path, suffix: str) -> Path | None:
    found = sorted(path for path in folder.iterdir() if path.name.endswith(suffix))
    if len(found) > 1:
        names = ", ".join(path.name for path in found[:4])
        raise CheckpointError(folder, f"one file *{suffix}", f"{len(found)} ({names})", "name one of them")
    return found[0] if found else None
