# SPDX-License-Identifier: Apache-2.0
"""Reads parts of safetensors files by the safetensors library, and writes such files piece by piece."""

import functools
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError, safe_open

from fcdp.checkpoint.digests import DIGITS, KEY, BlockDigester, digest_of, num_blocks
from fcdp.checkpoint.dtypes import TORCH_TYPES, item_bytes
from fcdp.checkpoint.errors import CheckpointError
from fcdp.checkpoint.fields import parse_json
from fcdp.checkpoint.regular import require_file
from fcdp.checkpoint.state import State

_DAMAGED = "the file is damaged or cut short: use another copy"
# The library refuses longer headers.
_GREATEST_HEADER = 100_000_000
# Each open file takes a descriptor, of which a process has a thousand.
_OPEN_FILES = 64


@functools.lru_cache(maxsize=_OPEN_FILES)
def _open(path: Path, written: int) -> Any:
    # "pread" leaves no pages of the file in this process's memory.
    return safe_open(path, framework="pt", backend="pread")


def open_file(path: Path) -> Any:
    """Returns the library's handle. Raises CheckpointError if the file's header is damaged, or bytes are missing."""
    try:
        return _open(path, require_file(path).stat().st_mtime_ns)
    except FileNotFoundError:
        raise CheckpointError(path, "a file", "nothing", "restore it, or use another checkpoint") from None
    except SafetensorError as error:
        raise CheckpointError(path, "a safetensors file", str(error), _DAMAGED) from None


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file, whose elements can be read in parts."""

    path: Path
    name: str
    dtype: str
    shape: tuple[int, ...]

    def read(self, offset: int, length: int) -> torch.Tensor:
        """Returns elements of the row-major order."""
        try:
            return self._read(offset, length)
        except SafetensorError as error:
            raise CheckpointError(self.path, f"the data of '{self.name}'", str(error), _DAMAGED) from None

    def _read(self, offset: int, length: int) -> torch.Tensor:
        file = open_file(self.path)
        if not self.shape:
            return file.get_tensor(self.name).reshape(-1)
        stored = file.get_slice(self.name)
        parts = [stored[index].reshape(-1) for index in ranges(self.shape, offset, length)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def ranges(shape: tuple[int, ...], offset: int, length: int) -> Iterator[tuple[int | slice, ...]]:
    """Yields the slices of a tensor that have the elements [offset, offset + length) of its row-major order."""
    if len(shape) == 1:
        yield (slice(offset, offset + length),)
        return
    row, end = math.prod(shape[1:]), offset + length
    while offset < end:
        number, start = divmod(offset, row)
        if start == 0 and end - offset >= row:
            count = (end - offset) // row
            yield (slice(number, number + count),)
            offset += count * row
        else:
            part = min(row - start, end - offset)
            yield from ((number, *inner) for inner in ranges(shape[1:], start, part))
            offset += part


def tensors_of(path: Path) -> dict[str, StoredTensor]:
    """Returns the tensors of a file by name. Raises CheckpointError for a type that is not known."""
    file = open_file(path)
    tensors = {}
    for name in file.keys():
        part = file.get_slice(name)
        if part.get_dtype() not in TORCH_TYPES:
            expected, found = f"'{name}' of one of the types {', '.join(TORCH_TYPES)}", part.get_dtype()
            raise CheckpointError(path, expected, found, "convert it to another type first")
        tensors[name] = StoredTensor(path, name, part.get_dtype(), tuple(part.get_shape()))
    return tensors


def metadata_of(path: Path) -> dict[str, str]:
    return open_file(path).metadata() or {}


@dataclass(frozen=True)
class Header:
    """The beginning of a file: the size of the header, and the header."""

    data: bytes
    members: dict[str, Any]

    @property
    def metadata(self) -> dict[str, Any]:
        metadata = self.members.get("__metadata__")
        return metadata if isinstance(metadata, dict) else {}


def read_header(path: Path) -> Header:
    """Raises CheckpointError if it is damaged."""
    with open(path, "rb") as file:
        start = file.read(8)
        size = int.from_bytes(start, "little")
        if size > _GREATEST_HEADER or size + 8 > path.stat().st_size:
            raise CheckpointError(path, f"a header of {size} bytes", f"{path.stat().st_size} bytes in all", _DAMAGED)
        text = file.read(size)
    return Header(start + text, parse_json(text, path, _DAMAGED).members)


def write_file(
    file: BinaryIO,
    path: Path,
    tensors: Iterable[tuple[str, State]],
    metadata: Mapping[str, str],
    with_digests: bool = False,
) -> str | None:
    """Writes states under the given names, each as it is read. Messages name the file `path`.

    with_digests: the metadata also has the digests of the data, and the digest of the header is returned.
    """
    # The library orders tensors by the size of their elements, too, so that all are aligned.
    ordered = sorted(tensors, key=lambda entry: -item_bytes(entry[1].dtype))
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name, state in ordered:
        begin, end = end, end + state.bytes
        header[name] = {"dtype": state.dtype, "shape": list(state.shape), "data_offsets": [begin, end]}
    if with_digests:
        # They are known when all data is written, and have as many digits.
        header["__metadata__"][KEY] = "0" * (num_blocks(end) * DIGITS)
    start = _header_data(header, path)
    file.write(start)
    digester = BlockDigester()
    for _, state in ordered:
        for chunk in state.chunks():
            data = memoryview(chunk.view(torch.uint8).numpy())
            file.write(data)
            digester.add(data)
    if not with_digests:
        return None
    header["__metadata__"][KEY] = digester.finish()
    start = _header_data(header, path)
    file.seek(0)
    file.write(start)
    return digest_of(start)


def _header_data(header: dict[str, Any], path: Path) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _GREATEST_HEADER:
        found = f"one of {len(text)}"
        raise CheckpointError(path, f"a header of at most {_GREATEST_HEADER} bytes", found, "write several files")
    return len(text).to_bytes(8, "little") + text
