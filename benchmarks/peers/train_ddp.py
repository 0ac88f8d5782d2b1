# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import _compress_hook
from torch.nn.parallel import DistributedDataParallel

from trainer import TIMEOUT, Trainer, make_optimizer


def _reduce_in_bfloat16(group: dist.ProcessGroup, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Does what bf16_compress_hook does, which DDP refuses on CPUs by its name."""
    return _compress_hook(torch.bfloat16, group, bucket)


def prepare(model: nn.Module, job: dict[str, Any]) -> Trainer:
    dist.init_process_group("gloo", timeout=TIMEOUT)
    replica = DistributedDataParallel(model, gradient_as_bucket_view=True, broadcast_buffers=False)
    narrow = job["dtype"] == "bf16"
    if narrow:
        replica.register_comm_hook(None, _reduce_in_bfloat16)
    late = not job["settings"]["sync"]

    @contextlib.contextmanager
    def micro_batch(last: bool) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            if narrow:
                stack.enter_context(torch.autocast("cpu", torch.bfloat16))
            if late and not last:
                stack.enter_context(replica.no_sync())
            yield

    return Trainer(replica, make_optimizer(model, job), micro_batch)
