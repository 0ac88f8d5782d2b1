# SPDX-License-Identifier: Apache-2.0
"""Leaves out of a trace what Transformers asserts of the values of tensors: a compiled step has no place for assertions."""

import contextlib
import os
from collections.abc import Iterator

# Transformers' torch_compilable_check reads it at each call. Its vision and language models compare numbers of image tokens.
_DISABLED = "TRANSFORMERS_DISABLE_TORCH_CHECK"


@contextlib.contextmanager
def without_assertions() -> Iterator[None]:
    """Until the context ends, these assertions are not made. Eager PyTorch has made them on the example inputs, if it ran."""
    before = os.environ.get(_DISABLED)
    os.environ[_DISABLED] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_DISABLED]
        else:
            os.environ[_DISABLED] = before
