# SPDX-License-Identifier: Apache-2.0
"""A training script with FSDP2: loads the checkpoint FROM, makes a step, and saves to TO. Started for each rank."""

import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import state_dict as sd
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def make_model() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.Tanh(), torch.nn.Linear(10, 3))


def state_of(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, object]:
    return {"model": sd.get_model_state_dict(model), "optim": sd.get_optimizer_state_dict(model, optimizer)}


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """All ranks have the same data, so that the averaged gradient is that of one process."""
    torch.manual_seed(2)
    model(torch.randn(5, 6)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def main(source: str, target: str) -> None:
    dist.init_process_group("gloo")
    model = make_model()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.9)
    state = state_of(model, optimizer)
    dcp.load(state, checkpoint_id=source)
    sd.set_model_state_dict(model, state["model"])
    sd.set_optimizer_state_dict(model, optimizer, state["optim"])
    step(model, optimizer)
    dcp.save(state_of(model, optimizer), checkpoint_id=target)
    dist.destroy_process_group()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
    # A thread of torch may still run, which would abort the interpreter's exit.
    os._exit(0)
