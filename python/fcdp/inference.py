# SPDX-License-Identifier: Apache-2.0
"""Has torch.inference_mode inside of a model keep it from training what is under it, in traces, too."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def inference_as_no_grad() -> Iterator[None]:
    """Until the context ends, torch.inference_mode records no gradients, as torch.no_grad, and does no more.

    torch.export leaves no trace of it: what a model computes under it would be trained. Methods of the class are
    replaced, because models hold functions that it decorates.
    """
    cls = torch.inference_mode
    own = cls.__enter__, cls.__exit__
    before: list[bool] = []

    def enter(self: Any) -> None:
        before.append(torch.is_grad_enabled())
        torch.set_grad_enabled(not self.mode)

    def leave(self: Any, *error: Any) -> None:
        torch.set_grad_enabled(before.pop())

    cls.__enter__, cls.__exit__ = enter, leave  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        cls.__enter__, cls.__exit__ = own  # type: ignore[method-assign]
