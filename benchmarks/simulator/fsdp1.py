# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's FSDP (FullyShardedDataParallel) keeps on a device and no plan has. test/e2e/test_simulator_fsdp1.py runs it."""

import torch
from torch import nn

from steps import Shape

BFLOAT16 = 2


def count_root(shape: Shape, ranks: int) -> float:
    """Returns the bytes of the embedding, the head and the last norm, for programs that wrap only the blocks and parts of them.

    FSDP does not release the parameters of its root between the forward and the backward pass. One rank gathers nothing.
    """
    blocks = sum(parameter.numel() for parameter in make_model(shape).blocks.parameters())
    return BFLOAT16 * (count_parameters(shape) - blocks) if ranks > 1 else 0


def count_parameters(shape: Shape) -> int:
    return sum(parameter.numel() for parameter in make_model(shape).parameters())


def make_model(shape: Shape) -> nn.Module:
    with torch.device("meta"):
        return shape.make(1)
