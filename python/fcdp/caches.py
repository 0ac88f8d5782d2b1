# SPDX-License-Identifier: Apache-2.0
"""Leaves out the keys and values that models of Transformers keep for generation. No loss depends on them.

Masks of attention do: a model that keeps them treats a row as one document, whatever its positions are.
"""

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from fcdp.torch_private import is_fake

CROSSES = (
    "attention goes over the boundaries of documents, as it does in eager PyTorch: Transformers keeps documents apart by "
    "'position_ids' that restart only where"
)


@contextlib.contextmanager
def without_caches(model: nn.Module, is_asked: bool = True) -> Iterator[None]:
    """Has `use_cache` be False in the configurations of a model and of its modules, until the context ends.

    If one was True, a row is one document meanwhile, as it is with caches. is_asked: whether the call leaves it to the
    configurations.
    """
    configs = [getattr(module, "config", None) for module in model.modules()]
    changed = {id(config): config for config in configs if getattr(config, "use_cache", None) is True}.values()
    for config in changed:
        config.use_cache = False
    try:
        with _one_document() if changed and is_asked else contextlib.nullcontext():
            yield
    finally:
        for config in changed:
            config.use_cache = True


@contextlib.contextmanager
def _one_document() -> Iterator[None]:
    """Has Transformers find no documents in positions, until the context ends."""
    masking = sys.modules.get("transformers.masking_utils")
    name = "find_packed_sequence_indices"
    original = getattr(masking, name, None)
    if original is None:
        yield
        return

    def find(positions: torch.Tensor) -> Any:
        if torch.compiler.is_exporting():
            return None
        if is_fake(positions):
            # A pass for shapes has what the trace has: a mask.
            return original(positions)
        if restart(positions):
            warnings.warn(f"{CROSSES} the model's configuration has use_cache=False", stacklevel=2)
        return None

    setattr(masking, name, find)
    try:
        yield
    finally:
        setattr(masking, name, original)


def restart(positions: torch.Tensor) -> bool:
    """Returns whether positions [rows, tokens] with values are those of rows of several documents."""
    is_known = positions.dim() == 2 and positions.device.type != "meta" and not positions.is_floating_point()
    return is_known and not bool((positions[:, 1:] - positions[:, :-1] == 1).all())
