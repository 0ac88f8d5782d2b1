# SPDX-License-Identifier: Apache-2.0
"""States as DTensors, as FSDP2 and torch.distributed.checkpoint have them: each rank has rows of each parameter."""

import functools
import sys
from typing import Any

import torch

from fcdp.errors import StepError


def is_sharded(value: Any) -> bool:
    """Whether `value` is a DTensor. Does not load PyTorch's module for them, which takes a second."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def to_dtensor(rows: torch.Tensor, whole: torch.Tensor, rank: int, num_ranks: int) -> torch.Tensor:
    """Returns the tensor with shape and type of `whole` of which this rank has `rows`."""
    from torch.distributed.tensor import DTensor, Replicate, Shard

    placement = Shard(0) if whole.dim() else Replicate()
    mesh = _mesh(rank, num_ranks)
    return DTensor.from_local(
        rows, mesh, [placement], run_check=False, shape=torch.Size(whole.shape), stride=whole.stride()
    )


def rows_of(value: Any, num_ranks: int) -> torch.Tensor | None:
    """Returns what this rank has of a DTensor, or None if its placement is not that of `to_dtensor`."""
    from torch.distributed.tensor import Replicate, Shard

    expected = Shard(0) if value.dim() else Replicate()
    if value.device_mesh.ndim != 1 or value.device_mesh.size() != num_ranks or value.placements != (expected,):
        return None
    return value.to_local()


@functools.cache
def _mesh(rank: int, num_ranks: int) -> Any:
    """Collective. Returns the mesh of all ranks."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    if not dist.is_initialized():
        raise StepError("misuse", "sharded: expected torch.distributed.init_process_group('gloo') before, got none")
    if (dist.get_rank(), dist.get_world_size()) != (rank, num_ranks):
        raise StepError(
            "misuse",
            f"sharded: expected a process group with rank {rank} of {num_ranks} here, "
            f"got rank {dist.get_rank()} of {dist.get_world_size()}",
        )
    return init_device_mesh("cpu", (num_ranks,))
