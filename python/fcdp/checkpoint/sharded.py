# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as fcdp-run writes them: a file of pieces for each rank, and an index."""

import bisect
import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from fcdp.checkpoint.digests import Blocks, digest_of, seal
from fcdp.checkpoint.dtypes import TORCH_TYPES, item_bytes
from fcdp.checkpoint.errors import CheckpointError
from fcdp.checkpoint.index import FILE_NAME, FileEntry, Index, Owner, Piece, StateEntry, read_index
from fcdp.checkpoint.safetensors_files import Header, StoredTensor, read_header, tensors_of, write_file
from fcdp.checkpoint.state import Checkpoint, State


def open_sharded(folder: Path) -> Checkpoint:
    """Reads the index and the header of every file. Damage is in the result's `problems`.

    Data is compared with its digests when it is read.
    """
    index = read_index(folder)
    problems = list(index.problems())
    tensors = []
    for file in index.files:
        found, problem = _open_file(folder / file.name, file)
        tensors.append(found)
        problems += [problem] if problem else []
    states = []
    for entry in index.states:
        problems += _piece_problems(entry, index, tensors)
        for owner, pieces in entry.by_owner().items():
            states.append(_make_state(entry, owner, pieces, tensors))
    return Checkpoint(
        path=folder,
        format="fcdp",
        states=states,
        step=index.step,
        world_size=index.world_size,
        nodes=index.nodes,
        plan_hash=index.plan_hash,
        job=index.job,
        files=[(file.name, file.bytes) for file in index.files],
        problems=problems,
        verify=functools.partial(_verify, folder, index) if index.has_digests else None,
    )


def _open_file(path: Path, file: FileEntry) -> tuple[dict[str, StoredTensor] | None, str | None]:
    """Returns a file's tensors, or what is wrong with it."""
    if not path.is_file():
        return None, f"{file.name}: the file is missing"
    if path.stat().st_size != file.bytes:
        return None, f"{file.name}: {path.stat().st_size} bytes instead of {file.bytes}"
    try:
        return _tensors_of(path, file), None
    except CheckpointError as error:
        return None, f"{file.name}: the header is damaged ({str(error).removeprefix(f'{path}: ')})"


@dataclass(frozen=True)
class _DigestedTensor(StoredTensor):
    """A tensor in a file that has digests, whose data begins at the byte `begin` of the file's."""

    blocks: Blocks
    begin: int

    def read(self, offset: int, length: int) -> torch.Tensor:
        width = item_bytes(self.dtype)
        self.blocks.verify(self.begin + offset * width, length * width)
        return super().read(offset, length)


def _tensors_of(path: Path, file: FileEntry) -> dict[str, StoredTensor]:
    header = read_header(path)
    found = digest_of(header.data)
    if file.digest is None:
        return tensors_of(path)
    if found != file.digest:
        advice = "the file is damaged, or of another checkpoint"
        raise CheckpointError(path, f"one with the digest {file.digest}, as the index says", found, advice)
    blocks = Blocks(path, len(header.data), header.metadata)
    return {name: _digested(tensor, header, blocks) for name, tensor in tensors_of(path).items()}


def _digested(tensor: StoredTensor, header: Header, blocks: Blocks) -> StoredTensor:
    begin = header.members[tensor.name]["data_offsets"][0]
    return _DigestedTensor(tensor.path, tensor.name, tensor.dtype, tensor.shape, blocks, begin)


def _verify(folder: Path, index: Index) -> Iterator[str]:
    """Reads all data and yields what is damaged. Files whose header is damaged are left to `open_sharded`."""
    for file in index.files:
        path = folder / file.name
        if path.is_file() and _open_file(path, file)[1] is None:
            header = read_header(path)
            yield from Blocks(path, len(header.data), header.metadata).problems()


def _piece_problems(
    entry: StateEntry, index: Index, tensors: list[dict[str, StoredTensor] | None]
) -> Iterator[str]:
    for piece in entry.pieces:
        found = tensors[piece.file]
        if found is None:
            continue
        file, name = index.files[piece.file].name, entry.tensor_name(piece)
        if name not in found:
            yield f"{file}: there is no tensor '{name}'"
        elif (found[name].dtype, found[name].shape) != (entry.dtype, (piece.length,)):
            is_, wanted = f"{found[name].dtype} {list(found[name].shape)}", f"{entry.dtype} [{piece.length}]"
            yield f"{file}: '{name}' is {is_} instead of {wanted}"


@dataclass
class _Pieces:
    """The pieces of one state in order, which follow each other without gaps."""

    dtype: torch.dtype
    offsets: list[int]
    tensors: list[StoredTensor]

    def read(self, offset: int, length: int) -> torch.Tensor:
        if not length:
            return torch.empty(0, dtype=self.dtype)
        end = offset + length
        which = bisect.bisect_right(self.offsets, offset) - 1
        if end <= self.offsets[which] + self.tensors[which].shape[0]:
            return self.tensors[which].read(offset - self.offsets[which], length)
        result = torch.empty(length, dtype=self.dtype)
        position = offset
        while position < end:
            begin, tensor = self.offsets[which], self.tensors[which]
            stop = min(end, begin + tensor.shape[0])
            result[position - offset : stop - offset] = tensor.read(position - begin, stop - position)
            position = stop
            which += 1
        return result


def _make_state(
    entry: StateEntry, owner: Owner, pieces: list[Piece], tensors: list[dict[str, StoredTensor] | None]
) -> State:
    kept = sorted(pieces, key=lambda piece: piece.offset)
    stored = [(tensors[piece.file] or {}).get(entry.tensor_name(piece)) for piece in kept]
    parts = _Pieces(TORCH_TYPES[entry.dtype], [piece.offset for piece in kept], [t for t in stored if t])
    return State(
        entry.names, entry.role, entry.dtype, entry.shape, parts.read, owner[0], entry.updates, entry.trainable,
        entry.persistent, owner[1], entry.packed,
    )  # fmt: skip


def write_sharded(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes into an empty folder. The file of rank 0 has all states but those that belong to other ranks or nodes.

    The first rank of a node has the states of its node.
    """
    world_size, locals_ = checkpoint.world_size, checkpoint.world_size // checkpoint.nodes
    index = Index(checkpoint.step or 0, world_size, checkpoint.nodes, checkpoint.plan_hash, checkpoint.job, [])
    index.states = list(_entries(checkpoint.states, locals_))
    places = {(entry.role, entry.names[0]): entry for entry in index.states}
    for rank in range(world_size):
        name = f"rank-{rank:05}-of-{world_size:05}.safetensors"
        # An empty state has no pieces.
        own = [state for state in checkpoint.states if _writer_of(state, locals_) == rank and state.elements]
        tensors = []
        for state in own:
            piece = Piece(rank, 0, state.elements, state.rank, state.node)
            flat = replace(state, shape=(state.elements,))
            tensors.append((places[state.role, state.name].tensor_name(piece), flat))
        with open(folder / name, "wb") as file:
            digest = write_file(file, folder / name, tensors, {"format": "pt"}, with_digests=True)
        index.files.append(FileEntry(name, (folder / name).stat().st_size, digest))
    (folder / FILE_NAME).write_text(seal(json.dumps(index.to_json(), indent=1)))


def _writer_of(state: State, locals_: int) -> int:
    return (state.node or 0) * locals_ if state.rank is None else state.rank


def _entries(states: Iterable[State], locals_: int) -> Iterator[StateEntry]:
    """Puts the states that are one for all ranks, or that each rank or node has for itself, into one entry."""
    grouped: dict[tuple[str, str], list[State]] = {}
    for state in states:
        grouped.setdefault((state.role, state.name), []).append(state)
    for group in grouped.values():
        first = group[0]
        pieces = tuple(
            Piece(_writer_of(state, locals_), 0, state.elements, state.rank, state.node)
            for state in group
            if state.elements
        )
        yield StateEntry(
            first.names, first.role, first.dtype, first.shape, pieces, first.updates, first.trainable, first.persistent,
            first.packed,
        )  # fmt: skip
