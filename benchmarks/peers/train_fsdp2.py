# SPDX-License-Identifier: Apache-2.0
"""FSDP2 (`fully_shard`)."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from steps import blocks
from trainer import TIMEOUT, Trainer, make_optimizer


def prepare(model: nn.Module, job: dict[str, Any]) -> Trainer:
    dist.init_process_group("gloo", timeout=TIMEOUT)
    settings = job["settings"]
    local = job["ranks_per_node"]
    shape = (job["ranks"] // local, local) if settings.get("hybrid") else (job["ranks"],)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard")[-len(shape) :])
    shard(model, mesh, job["dtype"], local if settings["reshard"] == "node" else settings["reshard"])
    if settings.get("prefetch"):
        _prefetch(model)
    return Trainer(model, make_optimizer(model, job), lambda last: _micro_batch(model, settings, last))


def shard(model: nn.Module, mesh: DeviceMesh, dtype: str, reshard: bool | int) -> None:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16) if dtype == "bf16" else MixedPrecisionPolicy()
    for block in blocks(model):
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)


@contextlib.contextmanager
def _micro_batch(model: FSDPModule, settings: dict[str, Any], last: bool) -> Iterator[None]:
    model.set_is_last_backward(last)
    if not settings["reshard"]:
        # Copies are kept until the update.
        model.set_reshard_after_backward(last)
    if not settings.get("sync", True):
        model.set_requires_gradient_sync(last)
    if not settings.get("all_reduce", True):
        model.set_requires_all_reduce(last)
    yield


def _prefetch(model: FSDPModule) -> None:
    """Gathers one layer ahead, as the tutorial of FSDP2 has it. On CPUs only asynchronous gathers overlap."""
    layers = blocks(model)
    model._set_unshard_async_op(True)
    for layer, following in zip(layers, layers[1:]):
        layer.set_modules_to_forward_prefetch([following])
        following.set_modules_to_backward_prefetch([layer])
