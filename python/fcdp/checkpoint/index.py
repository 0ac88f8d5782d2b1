# SPDX-License-Identifier: Apache-2.0
"""The index of a checkpoint of fcdp-run, index.json."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fcdp.checkpoint.digests import seal_problem
from fcdp.checkpoint.dtypes import TORCH_TYPES
from fcdp.checkpoint.errors import CheckpointError
from fcdp.checkpoint.fields import Fields, parse_json, read_text
from fcdp.checkpoint.pieces import coverage_problem
from fcdp.checkpoint.state import ROLES, owner_suffix

FORMAT, FILE_NAME = "fcdp-checkpoint", "index.json"
# The first version has no digests.
FIRST_VERSION, VERSION = 1, 2
_NAME = re.compile(r"step-(\d{8,})")
GREATEST_WORLD = 1 << 20
_ADVICE = "the index is damaged: use another checkpoint"

Owner = tuple[int | None, int | None]
"""A rank or a node; neither of a state that all ranks have together."""


@dataclass(frozen=True)
class Piece:
    file: int
    offset: int
    length: int
    rank: int | None = None
    node: int | None = None


@dataclass(frozen=True)
class StateEntry:
    names: tuple[str, ...]
    role: str
    dtype: str
    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]
    updates: int | None = None
    trainable: bool | None = None
    persistent: bool | None = None
    packed: str | None = None  # How the bytes of a packed matrix are packed, such as "nf4 of bf16[64, 64]".

    def tensor_name(self, piece: Piece) -> str:
        """Returns the name of a piece in its file."""
        return f"{self.role}/{self.names[0]}@{piece.offset}{owner_suffix(piece.rank, piece.node)}"

    def by_owner(self) -> dict[Owner, list[Piece]]:
        pieces = defaultdict(list)
        for piece in self.pieces:
            pieces[piece.rank, piece.node].append(piece)
        return pieces or {(None, None): []}


@dataclass(frozen=True)
class FileEntry:
    name: str
    bytes: int
    digest: str | None = None  # The header's; none in the first version.


@dataclass
class Index:
    step: int
    world_size: int
    nodes: int
    plan_hash: str
    job: dict[str, Any]
    files: list[FileEntry]
    states: list[StateEntry] = field(default_factory=list)
    has_digests: bool = True

    def problems(self) -> Iterator[str]:
        """Yields what is wrong with the pieces of states."""
        for state in self.states:
            label, elements, pieces = f"{state.role}/{state.names[0]}", math.prod(state.shape), state.by_owner()
            kinds = {(rank is not None, node is not None) for rank, node in pieces}
            if len(kinds) > 1 or (True, True) in kinds:
                yield f"{label}: not all pieces belong to ranks, to nodes, or to neither"
                continue
            ranks = {rank for rank, _ in pieces if rank is not None}
            nodes = {node for _, node in pieces if node is not None}
            for kind, found, count in (("rank", ranks, self.world_size), ("node", nodes, self.nodes)):
                if 0 < len(found) < count:
                    yield f"{label}: no pieces of {kind} {next(i for i in range(count) if i not in found)}"
            for (rank, node), parts in pieces.items():
                if problem := coverage_problem([(part.offset, part.length) for part in parts], elements):
                    yield f"{label}: {problem}{_owner_text(rank, node)}"

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "step": self.step,
            "world_size": self.world_size,
            "nodes": self.nodes,
            "plan_hash": self.plan_hash,
            "job": self.job,
            "files": [vars(file) for file in self.files],
            "states": [_state_to_json(state) for state in self.states],
        }


def _owner_text(rank: int | None, node: int | None) -> str:
    if rank is not None:
        return f" of rank {rank}"
    return "" if node is None else f" of node {node}"


def _state_to_json(state: StateEntry) -> dict[str, Any]:
    known = {key: value for key, value in vars(state).items() if value is not None and key != "pieces"}
    pieces = [{key: value for key, value in vars(piece).items() if value is not None} for piece in state.pieces]
    return {**known, "pieces": pieces}


def read_index(folder: Path) -> Index:
    """Reads FOLDER/index.json. Raises CheckpointError if it is none."""
    path = folder / FILE_NAME
    data = read_text(path, _ADVICE)
    fields = parse_json(data, path, _ADVICE)
    if fields.text("format") != FORMAT:
        raise fields.error(f'"{FORMAT}"', fields.text("format"), "format")
    has_digests = _has_digests(fields, path, data)
    world_size = fields.count("world_size", least=1, most=GREATEST_WORLD)
    index = Index(
        step=fields.count("step"),
        world_size=world_size,
        nodes=fields.count("nodes", least=1, most=world_size),
        plan_hash=fields.text("plan_hash"),
        job=fields.object("job"),
        files=[_read_file(file, has_digests) for file in fields.objects("files")],
        has_digests=has_digests,
    )
    named = _NAME.fullmatch(folder.resolve().name)
    if named and int(named[1]) != index.step:
        raise fields.error(f"{int(named[1])}, as the folder's name says", index.step, "step")
    names = [file.name for file in index.files]
    if len(set(names)) < len(names):
        raise fields.error("names that differ", names, "files")
    seen: set[tuple[str, str]] = set()
    for state in fields.objects("states"):
        index.states.append(_read_state(state, index))
        for name in index.states[-1].names:
            key = (index.states[-1].role, name)
            if key in seen:
                raise state.error("a name that no other state has", name, "names")
            seen.add(key)
    return index


def _has_digests(fields: Fields, path: Path, data: bytes) -> bool:
    """Compares the text with its digest, if it is of a version that has one."""
    version = fields.count("version")
    if version not in (FIRST_VERSION, VERSION):
        expected = f"{FIRST_VERSION} or {VERSION} (newer versions need a newer fcdp-ckpt)"
        raise fields.error(expected, version, "version")
    problem = seal_problem(data) if version == VERSION else None
    if problem:
        raise CheckpointError(path, "a text with its digest as its last member", problem, _ADVICE)
    if version == FIRST_VERSION and fields.has("digest"):
        raise fields.error("nothing in version 1", fields.text("digest"), "digest")
    return version == VERSION


def _read_file(fields: Fields, has_digests: bool) -> FileEntry:
    name = fields.text("name")
    if Path(name).name != name or name in ("", ".", ".."):
        raise fields.error("the name of a file in the same folder", name, "name")
    return FileEntry(name, fields.count("bytes"), fields.text("digest") if has_digests else None)


def _read_state(fields: Fields, index: Index) -> StateEntry:
    names, role, dtype = fields.texts("names"), fields.text("role"), fields.text("dtype")
    if not names:
        raise fields.error("at least one name", [], "names")
    if role not in ROLES:
        raise fields.error(f"one of {', '.join(ROLES)}", role, "role")
    if dtype not in TORCH_TYPES:
        raise fields.error("a type of safetensors", dtype, "dtype")
    return StateEntry(
        names=names,
        role=role,
        dtype=dtype,
        shape=fields.sizes("shape"),
        pieces=tuple(_read_piece(piece, index) for piece in fields.objects("pieces")),
        updates=fields.optional_count("updates"),
        trainable=fields.flag("trainable"),
        persistent=fields.flag("persistent"),
        packed=fields.text("packed") if fields.has("packed") else None,
    )


def _read_piece(fields: Fields, index: Index) -> Piece:
    return Piece(
        file=fields.count("file", most=len(index.files) - 1),
        offset=fields.count("offset"),
        length=fields.count("length", least=1),
        rank=fields.optional_count("rank", most=index.world_size - 1),
        node=fields.optional_count("node", most=index.nodes - 1),
    )
