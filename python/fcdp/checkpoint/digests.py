# SPDX-License-Identifier: Apache-2.0
"""The digests of a checkpoint's files, by which a reader finds that one is not as it was written."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import xxhash

from fcdp.checkpoint.errors import CheckpointError

# The data of a file has a digest for each block of so many bytes, the last of which may be shorter.
BLOCK_BYTES = 1 << 20
DIGITS = 16
# The key of the blocks' digests in a header's metadata.
KEY = "digests"
_SEAL = re.compile(rb'"digest"\s*:\s*"([0-9a-f]{16})"\s*}\s*\Z')
_ADVICE = "the file is damaged: use another checkpoint"


def digest_of(data: bytes | memoryview) -> str:
    return xxhash.xxh3_64_hexdigest(data)


def seal(text: str) -> str:
    """Returns an object of JSON, which ends with a brace in a line of its own, with the digest of its text."""
    before = f"{text.removesuffix('}').rstrip()},\n "
    return f'{before}"digest": "{digest_of(before.encode())}"\n}}\n'


def seal_problem(data: bytes) -> str | None:
    """Returns what is wrong with the digest at the end of a text that `seal` has made, or none."""
    match = _SEAL.search(data, max(data.rfind(b'"digest"'), 0))
    if match is None:
        return "no digest as its last member"
    own = digest_of(memoryview(data)[: match.start()])
    return None if own == match[1].decode() else f"a text with the digest {own} instead of {match[1].decode()}"


class BlockDigester:
    """Makes the digests of data that comes in parts."""

    def __init__(self) -> None:
        self._done: list[str] = []
        self._state = xxhash.xxh3_64()
        self._left = BLOCK_BYTES

    def add(self, data: memoryview) -> None:
        while data:
            part, data = data[: self._left], data[self._left :]
            self._state.update(part)
            self._left -= len(part)
            if not self._left:
                self._end_block()

    def _end_block(self) -> None:
        self._done.append(self._state.hexdigest())
        self._state.reset()
        self._left = BLOCK_BYTES

    def finish(self) -> str:
        """Returns the digests, one after the other."""
        if self._left < BLOCK_BYTES:
            self._end_block()
        return "".join(self._done)


def num_blocks(size: int) -> int:
    return -(-size // BLOCK_BYTES)


class Blocks:
    """The data of a file, of which each block is compared with its digest before it is first used."""

    def __init__(self, path: Path, begin: int, metadata: Mapping[str, Any]):
        """`begin` is the byte at which the data begins. Raises CheckpointError unless `metadata` has all digests."""
        self._path, self._begin = path, begin
        self._size = path.stat().st_size - begin
        self._digests = metadata.get(KEY)
        expected = num_blocks(self._size) * DIGITS
        if not isinstance(self._digests, str) or len(self._digests) != expected:
            raise CheckpointError(path, f"{expected} digits of digests", "others", _ADVICE)
        self._verified: set[int] = set()

    def verify(self, offset: int, length: int) -> None:
        """Raises CheckpointError if data that has these bytes is damaged."""
        blocks = range(offset // BLOCK_BYTES, num_blocks(offset + length)) if length else ()
        missing = [block for block in blocks if block not in self._verified]
        if not missing:
            return
        with open(self._path, "rb") as file:
            for block in missing:
                if problem := self._problem(file.fileno(), block):
                    expected, found = problem
                    raise CheckpointError(self._path, expected, found, _ADVICE)
                self._verified.add(block)

    def problems(self) -> Iterator[str]:
        """Reads all data and yields a sentence for each block that is damaged."""
        with open(self._path, "rb") as file:
            for block in range(num_blocks(self._size)):
                if problem := self._problem(file.fileno(), block):
                    yield f"{self._path.name}: expected {problem[0]}, found {problem[1]}"

    def _problem(self, file: int, block: int) -> tuple[str, str] | None:
        at = block * BLOCK_BYTES
        found = digest_of(os.pread(file, min(BLOCK_BYTES, self._size - at), self._begin + at))
        expected = self._digests[block * DIGITS : (block + 1) * DIGITS]
        return None if found == expected else (f"data with the digest {expected} from byte {at} on", found)
