# SPDX-License-Identifier: Apache-2.0
"""torchft's DiLoCo and LocalSGD over nodes. A node is a replica group, over whose ranks FSDP2 shards the model."""

import os
import socket
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torchft.coordination import LighthouseServer
from torchft.local_sgd import DiLoCo, LocalSGD
from torchft.manager import Manager
from torchft.process_group import ProcessGroupGloo

from train_fsdp2 import shard
from trainer import TIMEOUT, Trainer, make_optimizer

LIGHTHOUSE_PORT, STORE_PORT = 29510, 29520
OUTER = dict(lr=0.7, momentum=0.9, nesterov=True)
"""The outer optimizer of DiLoCo's paper (arXiv 2311.08105)."""


@dataclass
class _Synchronized(Trainer):
    kept: tuple[Any, ...] = ()
    """The algorithm, which works by hooks of the optimizer, and servers."""


def prepare(model: nn.Module, job: dict[str, Any]) -> Trainer:
    dist.init_process_group("gloo", timeout=TIMEOUT)
    rank, local = job["rank"], job["ranks_per_node"]
    nodes = job["ranks"] // local
    mesh = init_device_mesh("cpu", (nodes, local), mesh_dim_names=("replicate", "shard"))
    shard(model, mesh["shard"], job["dtype"], reshard=False)
    optimizer = make_optimizer(model, job)
    servers: list[Any] = []
    address = _own_address()
    if rank == 0:
        servers.append(LighthouseServer(f"[::]:{LIGHTHOUSE_PORT}", min_replicas=nodes, join_timeout_ms=60_000))
    if rank % local == 0:
        servers.append(dist.TCPStore(address, STORE_PORT, is_master=True, wait_for_workers=False))
    dist.barrier()
    manager = Manager(
        ProcessGroupGloo(timeout=TIMEOUT),
        load_state_dict=model.load_state_dict,
        state_dict=model.state_dict,
        min_replica_size=nodes,
        use_async_quorum=False,
        timeout=TIMEOUT,
        quorum_timeout=TIMEOUT,
        rank=rank % local,
        world_size=local,
        store_addr=address,
        store_port=STORE_PORT,
        lighthouse_addr=f"http://{os.environ['MASTER_ADDR']}:{LIGHTHOUSE_PORT}",
        replica_id=f"node-{rank // local}",
        hostname=address,
        init_sync=False,
    )
    algorithm = _algorithm(manager, model, optimizer, job["settings"])
    algorithm.__enter__()
    return _Synchronized(model, optimizer, kept=(algorithm, *servers))


def _algorithm(manager: Manager, model: nn.Module, optimizer: torch.optim.Optimizer, settings: dict[str, Any]) -> Any:
    every = settings["sync_every"]
    if settings["algorithm"] == "localsgd":
        return LocalSGD(manager, model, optimizer, every)
    outer = torch.optim.SGD((p for p in model.parameters() if p.requires_grad), **OUTER)
    return DiLoCo(manager, [model], optimizer, outer, every, use_bucketization=True)


def _own_address() -> str:
    """Returns the address of this host that others reach it by."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((os.environ["MASTER_ADDR"], 1))
        return probe.getsockname()[0]
