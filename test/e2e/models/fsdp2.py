# SPDX-License-Identifier: Apache-2.0
"""One rank of a job that trains a model with PyTorch's FSDP2 on the CPU. Rank 0 writes losses and parameters.

The argument is a job in JSON.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import fcdp
from models import build

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "model": None}


def main(job: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = dist.init_device_mesh("cpu", (world,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=DTYPES[job["policy"]])
    model = build(job["model"])
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    name, *settings = job["optimizer"].split(",")
    options = {key: float(value) for key, value in (setting.split("=") for setting in settings)}
    optimizer = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[name](model.parameters(), **options)
    batches = fcdp.batches_from_npy({key: Path(path) for key, path in job["inputs"].items()}, world, 1)
    losses = []
    for step in range(job["steps"]):
        batch = batches(step)[rank]
        loss = model(**batch) if isinstance(batch, dict) else model(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().float()
        dist.all_reduce(total)
        losses.append(total.item() / world)
    weights = {name: value.full_tensor().detach() for name, value in model.named_parameters()}
    if rank == 0:
        out = Path(job["out"])
        save_file(weights, out / "fsdp2.safetensors")
        (out / "losses.json").write_text(json.dumps(losses))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
