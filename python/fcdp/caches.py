# SPDX-License-Identifier: Apache-2.0
"""Leaves out the keys and values that models of Transformers keep for generation. No loss depends on them."""

import contextlib
from collections.abc import Iterator

from torch import nn


@contextlib.contextmanager
def without_caches(model: nn.Module) -> Iterator[None]:
    """Has `use_cache` be False in the configurations of a model and of its modules, until the context ends."""
    configs = [getattr(module, "config", None) for module in model.modules()]
    changed = {id(config): config for config in configs if getattr(config, "use_cache", None) is True}.values()
    for config in changed:
        config.use_cache = False
    try:
        yield
    finally:
        for config in changed:
            config.use_cache = True
