# SPDX-License-Identifier: Apache-2.0
"""Leaves out of a trace what libraries assert of the values of tensors: a compiled step has no place for assertions."""

import contextlib
import os
from collections.abc import Iterator

from torch.distributions import Distribution

from fcdp.torch_private import validates_distributions

# Transformers' torch_compilable_check reads it at each call. Its vision and language models compare numbers of image
# tokens.
_DISABLED = "TRANSFORMERS_DISABLE_TORCH_CHECK"


@contextlib.contextmanager
def without_assertions() -> Iterator[None]:
    """Until the context ends, these assertions are not made.

    Eager PyTorch has made them on the example inputs, if it ran.
    """
    before = os.environ.get(_DISABLED)
    validates = validates_distributions()
    os.environ[_DISABLED] = "1"
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(validates)
        if before is None:
            del os.environ[_DISABLED]
        else:
            os.environ[_DISABLED] = before
