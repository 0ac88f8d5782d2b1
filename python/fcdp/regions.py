# SPDX-License-Identifier: Apache-2.0
"""Marks what a model asks to compute again in the backward pass, by torch.utils.checkpoint.

The joint graph has each of these operations once: the compiler repeats them.
"""

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

from torch.fx import traceback
from torch.utils import checkpoint

_KEY = "fcdp_region"


def region_of(meta: dict[str, Any]) -> int | None:
    """Returns the number of the checkpointed region that a node was traced in, or None."""
    return (meta.get("custom") or {}).get(_KEY)


@contextlib.contextmanager
def marked_regions() -> Iterator[None]:
    """Marks the nodes traced inside of checkpoint(use_reentrant=False), by numbers from 0.

    The generator inside of checkpoint is replaced, because models hold the function itself (Transformers binds it in
    gradient_checkpointing_enable).
    """
    original = checkpoint._checkpoint_without_reentrant_generator
    numbers = itertools.count()

    def marking(*args: Any, **kwargs: Any) -> Iterator[None]:
        with traceback.annotate({_KEY: next(numbers)}):
            yield from original(*args, **kwargs)

    checkpoint._checkpoint_without_reentrant_generator = marking
    try:
        with traceback.preserve_node_meta():
            yield
    finally:
        checkpoint._checkpoint_without_reentrant_generator = original
