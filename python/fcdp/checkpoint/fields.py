# SPDX-License-Identifier: Apache-2.0
"""Takes values out of JSON that may be damaged."""

import json
import math
from pathlib import Path
from typing import Any

from fcdp.checkpoint.errors import CheckpointError
from fcdp.checkpoint.regular import require_file

# JSON is read whole. No index of a real checkpoint comes near this.
_GREATEST_BYTES = 1 << 30
_GREATEST_COUNT = (1 << 63) - 1
_GREATEST_RANK = 64


class Fields:
    """An object of JSON, whose members are checked as they are taken."""

    def __init__(self, value: Any, path: Path, where: str, advice: str):
        self._path, self._where, self._advice = path, where, advice
        if not isinstance(value, dict):
            raise self.error("an object", value)
        self._members = value

    def error(self, expected: str, found: Any, key: str = "") -> CheckpointError:
        where = ".".join(filter(None, (self._where, key)))
        text = found if isinstance(found, _Text) else _shorten(json.dumps(found))
        return CheckpointError(self._path, f"{where or 'the file'} to be {expected}", text, self._advice)

    @property
    def members(self) -> dict[str, Any]:
        return self._members

    def has(self, key: str) -> bool:
        return key in self._members

    def take(self, key: str, kind: type, expected: str, default: Any = None) -> Any:
        """Returns the member `key`, or `default` if there is none and `default` is one."""
        if key not in self._members:
            if default is not None:
                return default
            raise self.error(expected, _Text("nothing"), key)
        value = self._members[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.error(expected, value, key)
        return value

    def text(self, key: str, default: str | None = None) -> str:
        return self.take(key, str, "a text", default)

    def flag(self, key: str) -> bool | None:
        return self.take(key, bool, "true or false") if self.has(key) else None

    def count(self, key: str, least: int = 0, most: int = _GREATEST_COUNT) -> int:
        value = self.take(key, int, "a number")
        if not least <= value <= most:
            raise self.error(f"a number from {least} to {most}", value, key)
        return value

    def optional_count(self, key: str, **limits: int) -> int | None:
        return self.count(key, **limits) if self.has(key) else None

    def object(self, key: str, default: dict[str, Any] | None = None) -> dict[str, Any]:
        return self.take(key, dict, "an object", default)

    def sizes(self, key: str) -> tuple[int, ...]:
        values = self.take(key, list, "a list of sizes")
        are_sizes = all(isinstance(value, int) and not isinstance(value, bool) and value >= 0 for value in values)
        if not are_sizes or len(values) > _GREATEST_RANK or math.prod(values) > _GREATEST_COUNT:
            raise self.error("a list of sizes", values, key)
        return tuple(values)

    def texts(self, key: str) -> tuple[str, ...]:
        values = self.take(key, list, "a list of names")
        if not all(isinstance(value, str) and value for value in values):
            raise self.error("a list of names", values, key)
        return tuple(values)

    def objects(self, key: str) -> list["Fields"]:
        values = self.take(key, list, "a list")
        where = ".".join(filter(None, (self._where, key)))
        return [Fields(value, self._path, f"{where}[{i}]", self._advice) for i, value in enumerate(values)]


class _Text(str):
    """A text that is not quoted as JSON."""


def _shorten(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def read_json(path: Path, advice: str) -> Fields:
    """Returns the object in a file of JSON."""
    return parse_json(read_text(path, advice), path, advice)


def read_text(path: Path, advice: str) -> bytes:
    """Returns a file of JSON. Raises CheckpointError if it is too large to be one, or no file."""
    size = require_file(path).stat().st_size
    if size > _GREATEST_BYTES:
        raise CheckpointError(path, f"at most {_GREATEST_BYTES} bytes of JSON", f"{size} bytes", advice)
    return path.read_bytes()


def _unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuses a key that an object has twice, of which a reader would take one."""
    found = dict(members)
    if len(found) < len(members):
        keys = [key for key, _ in members]
        raise ValueError(f"the key {json.dumps(next(key for key in keys if keys.count(key) > 1))} is there twice")
    return found


def parse_json(data: bytes, path: Path, advice: str) -> Fields:
    try:
        value = json.loads(data, object_pairs_hook=_unique)
    except RecursionError:
        raise CheckpointError(path, "JSON", "too many nested lists", advice) from None
    except ValueError as error:
        raise CheckpointError(path, "JSON", f"{type(error).__name__}: {_shorten(str(error))}", advice) from None
    return Fields(value, path, "", advice)
