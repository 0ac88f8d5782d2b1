# SPDX-License-Identifier: Apache-2.0
"""The memory that PyTorch's FSDP (FullyShardedDataParallel) keeps on a device and no plan has.

test/e2e/test_simulator_fsdp1.py runs FSDP.
"""

from steps import Shape, count, make_model

BFLOAT16 = 2


def count_root(shape: Shape, ranks: int) -> float:
    """Returns the bytes of the embedding, the head and the last norm, for programs that wrap only the blocks and parts
    of them.

    FSDP does not release the parameters of its root between the forward and the backward pass. One rank gathers
    nothing.
    """
    model = make_model(shape)
    return BFLOAT16 * (count(model) - count(model.blocks)) if ranks > 1 else 0
