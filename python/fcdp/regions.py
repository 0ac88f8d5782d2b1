# SPDX-License-Identifier: Apache-2.0
"""Marks what a model asks to compute again in the backward pass, by torch.utils.checkpoint.

The joint graph has each of these operations once: the compiler repeats them.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from torch.fx import traceback

from fcdp.torch_private import checkpointed_by

_KEY = "fcdp_region"


def region_of(meta: dict[str, Any]) -> int | None:
    """Returns the number of the checkpointed region that a node was traced in, or None."""
    return (meta.get("custom") or {}).get(_KEY)


@contextlib.contextmanager
def marked_regions() -> Iterator[None]:
    """Marks the nodes traced inside of checkpoint(use_reentrant=False), by numbers from 0."""
    numbers = itertools.count()

    def marked(original: Callable[..., Iterator[None]]) -> Callable[..., Iterator[None]]:
        def marking(*args: Any, **kwargs: Any) -> Iterator[None]:
            with traceback.annotate({_KEY: next(numbers)}):
                yield from original(*args, **kwargs)

        return marking

    with checkpointed_by(marked), traceback.preserve_node_meta():
        yield


@contextlib.contextmanager
def preserved_randomness() -> Iterator[None]:
    """Has checkpoints draw the same random numbers again, whatever their preserve_rng_state, until the context ends."""

    def preserving(original: Callable[..., Iterator[None]]) -> Callable[..., Iterator[None]]:
        def generator(function: Any, preserve: bool = True, *args: Any, **kwargs: Any) -> Iterator[None]:
            yield from original(function, True, *args, **kwargs)

        return generator

    with checkpointed_by(preserving):
        yield
