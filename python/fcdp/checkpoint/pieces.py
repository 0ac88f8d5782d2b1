# SPDX-License-Identifier: Apache-2.0
"""Checks that pieces cover a state exactly."""

from collections.abc import Iterable


def coverage_problem(pieces: Iterable[tuple[int, int]], elements: int) -> str | None:
    """Returns what is wrong with pieces (offset, length) that shall cover [0, elements) exactly once, or none."""
    end = 0
    for offset, length in sorted(pieces):
        if offset > end:
            return f"no piece for elements {end} to {offset}"
        if offset < end:
            return f"two pieces for elements {offset} to {min(end, offset + length)}"
        end = max(end, offset + length)
    if end < elements:
        return f"no piece for elements {end} to {elements}"
    if end > elements:
        return f"pieces up to element {end} of a state of {elements} elements"
    return None


def box_problem(boxes: Iterable[tuple[tuple[int, ...], tuple[int, ...]]], shape: tuple[int, ...]) -> str | None:
    """Does the same for boxes (offsets, sizes) of several dimensions."""
    placed: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    volume = 0
    for offsets, sizes in sorted(boxes):
        if len(offsets) != len(shape) or len(sizes) != len(shape):
            return f"a piece of {len(sizes)} dimensions of a state of {len(shape)}"
        if any(o < 0 or s < 0 or o + s > n for o, s, n in zip(offsets, sizes, shape)):
            return f"a piece of shape {list(sizes)} at {list(offsets)} of a state of shape {list(shape)}"
        size = _volume(sizes)
        if not size:
            continue
        # Boxes are sorted by their first offset: those that end before it overlap nothing that follows.
        placed = [box for box in placed if not shape or box[0][0] + box[1][0] > offsets[0]]
        if any(_overlap(box, (offsets, sizes)) for box in placed):
            return f"two pieces at {list(offsets)}"
        placed.append((offsets, sizes))
        volume += size
    return None if volume == _volume(shape) else f"pieces for {volume} of {_volume(shape)} elements"


def _volume(sizes: Iterable[int]) -> int:
    volume = 1
    for size in sizes:
        volume *= size
    return volume


def _overlap(
    one: tuple[tuple[int, ...], tuple[int, ...]], other: tuple[tuple[int, ...], tuple[int, ...]]
) -> bool:
    return all(a < b + m and b < a + n for a, n, b, m in zip(one[0], one[1], other[0], other[1]))
