# SPDX-License-Identifier: Apache-2.0
"""One rank of a job that trains with fcdp.compile or FSDP2, and loads and saves its states as DTensors.

usage: sharded_script.py JOBS OUT

JOBS is JSON, a list of {"kind": "fcdp", "fsdp" or "misfits", "load": a folder of torch.distributed.checkpoint, "steps":
how many, "save": a folder, "more": steps after that, "half": whether the model is in bfloat16 and has a parameter
without dimensions, "width": of its hidden layer, "options": arguments of fcdp.compile}, which run one after the other.
Rank 0 writes to OUT, for each, {"losses", "loaded", "saved", "last": all states at these times}.
"""

import copy
import json
import sys
import warnings
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint import DefaultLoadPlanner
from torch.distributed.checkpoint import state_dict as sd
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor

import fcdp


class Net(nn.Module):
    """Has rows that no number of ranks divides, a vector with fewer elements than ranks, and buffers that change."""

    def __init__(self, has_scalar: bool, width: int):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, width), nn.BatchNorm1d(width), nn.Tanh(), nn.Linear(width, 3))
        self.factor = nn.Parameter(torch.tensor(1.5)) if has_scalar else 1.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.layers(x.to(self.layers[0].weight.dtype)) * self.factor - 1).square().mean()


def batch() -> torch.Tensor:
    """The same on all ranks, so that any number of them trains alike."""
    return torch.randn(5, 6, generator=torch.Generator().manual_seed(2))


def states_of(step: fcdp.Step) -> dict[str, Any]:
    return {"model": step.state_dict(sharded=True), "optim": {"state": step.optimizer_state_dict(sharded=True)}}


def with_fcdp(job: dict[str, Any], model: Net) -> dict[str, Any]:
    def whole() -> dict[str, Any]:
        return {"model": step.state_dict(), "optim": step.optimizer_state_dict()}

    with fcdp.compile(model, (batch(),), **{"optimizer": "adamw,lr=0.05", "threads": 1, "check": False, **job["options"]}) as step:
        if "load" in job:
            state = states_of(step)
            dcp.load(state, checkpoint_id=job["load"])
            step.load_state_dict(state["model"])
            step.load_optimizer_state_dict(state["optim"]["state"])
        found: dict[str, Any] = {"loaded": whole()}
        found["losses"] = [step(batch()).item() for _ in range(job.get("steps", 0))]
        found["saved"] = whole()
        if "save" in job:
            dcp.save(states_of(step), checkpoint_id=job["save"])
        found["losses"] += [step(batch()).item() for _ in range(job.get("more", 0))]
        return {**found, "last": whole()}


def with_misfits(job: dict[str, Any], model: Net) -> dict[str, Any]:
    """Loads states that do not fit the step, and returns the error of each rank."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))

    def shard(*shape: int) -> torch.Tensor:
        return distribute_tensor(torch.zeros(shape), mesh, [Shard(0)])

    def load(name: str, step: fcdp.Step) -> None:
        values, states = step.state_dict(sharded=True), step.optimizer_state_dict(sharded=True)
        first = "layers.0.weight"
        if name == "turned":
            step.load_state_dict({**values, first: shard(6, 10)})
        elif name == "flat":
            step.load_state_dict({**values, first: shard(60)})
        elif name == "short":
            # Rank 0's rows are as many as it has.
            step.load_state_dict({**values, first: shard(9, 6)})
        elif name == "missing on one rank":
            step.load_state_dict(values if dist.get_rank() == 0 else {n: v for n, v in values.items() if n != first})
        elif name == "whole on one rank":
            step.load_state_dict(values if dist.get_rank() == 0 else {**values, first: torch.zeros(10, 6)})
        elif name == "a moment":
            states[first]["exp_avg_sq"] = shard(6, 10)
            step.load_optimizer_state_dict(states)
        elif name == "counts":
            states[first]["step"] = torch.tensor(3.0)
            step.load_optimizer_state_dict(states)

    errors = {}
    names = "turned", "flat", "short", "missing on one rank", "whole on one rank", "a moment", "counts"
    for name in names:
        step = fcdp.compile(model, (batch(),), optimizer="adamw,lr=0.05", threads=1, check=False, timeout=20, **job["options"])
        try:
            load(name, step)
        except fcdp.StepError as error:
            found: list[Any] = [None] * dist.get_world_size()
            dist.all_gather_object(found, f"{error.code}: {error}")
            errors[name] = found
        step.fail("it is of no more use")
    return errors


def with_fsdp(job: dict[str, Any], model: Net) -> dict[str, Any]:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (model.layers[0], model.layers[3], model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)

    def whole() -> dict[str, Any]:
        model_state, states = sd.get_state_dict(model, optimizer, options=sd.StateDictOptions(full_state_dict=True))
        # PyTorch does not copy tensors that are whole in the model already.
        return copy.deepcopy({"model": model_state, "optim": states["state"]})

    model_state, optimizer_state = sd.get_state_dict(model, optimizer)
    state = {"model": model_state, "optim": optimizer_state}
    # A step of fcdp has no parameter groups.
    dcp.load(state, checkpoint_id=job["load"], planner=DefaultLoadPlanner(allow_partial_load=True))
    sd.set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
    found: dict[str, Any] = {"loaded": whole(), "losses": []}
    for _ in range(job["steps"]):
        loss = model(batch())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found["losses"].append(loss.item())
    model_state, optimizer_state = sd.get_state_dict(model, optimizer)
    dcp.save({"model": model_state, "optim": optimizer_state}, checkpoint_id=job["save"])
    return {**found, "saved": whole()}


def main(jobs: list[dict[str, Any]], out: str) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    results = []
    for seed, job in enumerate(jobs):
        torch.manual_seed(seed)
        is_half = job.get("half", False)
        model = Net(has_scalar=is_half, width=job.get("width", 10)).to(torch.bfloat16 if is_half else torch.float32)
        run = {"fcdp": with_fcdp, "fsdp": with_fsdp, "misfits": with_misfits}[job["kind"]]
        results.append(run(job, model))
    if dist.get_rank() == 0:
        torch.save(results, out)
    dist.destroy_process_group()


main(json.loads(sys.argv[1]), sys.argv[2])
