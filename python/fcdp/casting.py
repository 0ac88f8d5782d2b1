# SPDX-License-Identifier: Apache-2.0
"""Casts the parameters of a model, and finds buffers that a cast of the whole model has rounded."""

import warnings
from collections.abc import Collection

import torch
from torch import nn

from fcdp.torch_private import is_fake

# In half precision the lowest bit of an element's 16 is that of its fraction.
_HALF = (torch.bfloat16, torch.float16)


def cast_parameters(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Gives floating-point parameters the type, in place, and returns the model. Buffers keep theirs.

    This is what `param_dtype` of FSDP2's MixedPrecisionPolicy does. `model.to(dtype)` would round buffers, too: with
    rotary tables in bfloat16 a model confuses positions of thousands. Tied parameters stay tied, and parameters without
    values (fcdp.empty_weights) get the type, too. Their gradients are dropped.
    """
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"cast_parameters: expected a floating-point type such as torch.bfloat16, got {dtype!r}")
    for parameter in model.parameters():
        if parameter.is_floating_point() and parameter.dtype != dtype:
            parameter.grad = None
            parameter.data = parameter.data.to(dtype)
    return model


def warn_of_rounded_buffers(model: nn.Module, changed: Collection[str]) -> None:
    """Warns of buffers in half precision that seem to be rounded, or are in each step.

    `changed`: those that it changes.
    """
    found = [name for name, buffer in model.named_buffers() if _is_rounded(buffer, name in changed)]
    if found:
        more = f" and {len(found) - 1} more buffers are" if len(found) > 1 else " is"
        warnings.warn(
            f"the buffer '{found[0]}'{more} in half precision, and rounded: model.to(torch.bfloat16) does that to rotary "
            "tables and running statistics, which FSDP2 leaves in float32. Call fcdp.cast_parameters(model, "
            "torch.bfloat16) instead, on a model whose buffers are in float32 still",
            stacklevel=3,
        )


def _is_rounded(buffer: torch.Tensor, is_changed: bool) -> bool:
    """Masks and small whole numbers need few of the type's bits; of what was rounded, half of the elements need all."""
    if buffer.dtype not in _HALF:
        return False
    if is_changed:
        return True
    if buffer.device.type == "meta" or is_fake(buffer):
        return False
    bits = buffer.detach().contiguous().view(torch.int16)
    return bool(((bits & 1 == 1) & buffer.isfinite() & (buffer > torch.finfo(buffer.dtype).min)).any())
