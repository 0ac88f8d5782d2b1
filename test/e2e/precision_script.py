# SPDX-License-Identifier: Apache-2.0
"""One rank of a job that trains by each recipe of docs/precision.md, and by the policy of FSDP2 that it replaces.

usage: precision_script.py FOLDER

Rank 0 writes FOLDER/NAME.json: the losses of both, and how far the float32 parameters are from FSDP2's and from their
beginning.
"""

import json
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import fcdp

STEPS, ROWS, LENGTH, VOCABULARY, WIDTH = 4, 2, 32, 29, 16
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
Batch = dict[str, torch.Tensor]


class Rotary(nn.Module):
    """Rotates by a table in float32, which is a buffer, and computes in the type of its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.features = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(4, WIDTH)
        self.norm, self.fc, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("inv_freq", 1000 ** -(torch.arange(WIDTH) / WIDTH), persistent=False)

    def forward(self, ids: torch.Tensor, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        angle = 64 * torch.arange(LENGTH)[:, None] * self.inv_freq
        h = (self.embed(ids) + self.features(x)) * angle.cos().to(x.dtype)
        h = h + F.gelu(self.fc(self.norm(h)))
        return F.cross_entropy(self.head(h).flatten(0, 1), labels.flatten())


class WideOutput(Rotary):
    """Does the work of output_dtype=torch.float32 in the model."""

    def forward(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> torch.Tensor:
        return super().forward(*args, **kwargs).float()


def cast(model: nn.Module) -> nn.Module:
    return fcdp.cast_parameters(model, BF16)


def cast_all(model: nn.Module) -> nn.Module:
    return model.to(BF16)


@dataclass
class Recipe:
    policy: dict[str, torch.dtype]
    change: Callable[[nn.Module], nn.Module] = lambda model: model
    kind: type[Rotary] = Rotary
    options: list[str] = field(default_factory=list)


NARROW = {"param_dtype": BF16}
RECIPES = {
    "bf16-f32": Recipe({**NARROW, "reduce_dtype": F32}, cast, options=["--master=f32", "--reduce-dtype=f32"]),
    "bf16": Recipe(NARROW, cast, options=["--master=f32"]),
    "none": Recipe({}),
    "reduce-bf16": Recipe({"reduce_dtype": BF16}, options=["--reduce-dtype=bf16"]),
    "reduce-f16": Recipe({"reduce_dtype": F16}, options=["--reduce-dtype=f16"]),
    "output": Recipe(
        {**NARROW, "reduce_dtype": F32, "output_dtype": F32}, cast, WideOutput, ["--master=f32", "--reduce-dtype=f32"]
    ),
    # The recipe that was once the first one, and is wrong.
    "rounded-table": Recipe({**NARROW, "reduce_dtype": F32}, cast_all, options=["--master=f32", "--reduce-dtype=f32"]),
}


def make(kind: type[Rotary]) -> Rotary:
    torch.manual_seed(0)
    return kind()


def batches(rank: int) -> list[Batch]:
    draw = torch.Generator().manual_seed(rank)
    return [
        {
            "ids": torch.randint(VOCABULARY, (ROWS, LENGTH), generator=draw),
            "x": torch.randn(ROWS, LENGTH, 4, generator=draw),
            "labels": torch.randint(VOCABULARY, (ROWS, LENGTH), generator=draw),
        }
        for _ in range(STEPS)
    ]


def with_fsdp2(recipe: Recipe, data: list[Batch]) -> tuple[list[float], dict[str, torch.Tensor]]:
    model = make(Rotary)
    fully_shard(model, mesh=dist.init_device_mesh("cpu", (2,)), mp_policy=MixedPrecisionPolicy(**recipe.policy))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-3)
    losses = []
    for batch in data:
        loss = model(**batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().float()
        dist.all_reduce(total)
        losses.append(total.item() / 2)
    return losses, {name: value.full_tensor().detach() for name, value in model.named_parameters()}


def with_fcdp(recipe: Recipe, data: list[Batch], folder: Path) -> tuple[list[float], dict[str, torch.Tensor]]:
    model = recipe.change(make(recipe.kind))
    if "param_dtype" in recipe.policy:
        data = [{**batch, "x": batch["x"].to(BF16)} for batch in data]  # cast_forward_inputs
    settings = {"optimizer": "adamw,lr=1e-2,eps=1e-3", "options": recipe.options, "cache": folder / "cache", "threads": 1}
    with fcdp.compile(model, data[0], weights=folder / "weights.safetensors", **settings) as step:
        losses = [step(**batch).item() for batch in data]
        values, states = step.state_dict(), step.optimizer_state_dict()
    return losses, {name: states[name].get("master", values[name]) for name in states}


def distance(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    return sum((one[name].double() - other[name].double()).abs().sum().item() for name in other)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    begin = {name: value.detach() for name, value in make(Rotary).named_parameters()}
    if rank == 0:
        save_file(begin, folder / "weights.safetensors")
    dist.barrier()
    for name, recipe in RECIPES.items():
        theirs, their_values = with_fsdp2(recipe, batches(rank))
        own, values = with_fcdp(recipe, batches(rank), folder)
        if rank == 0:
            far = {"difference": distance(values, their_values), "moved": distance(begin, their_values)}
            (folder / f"{name}.json").write_text(json.dumps({"fcdp": own, "fsdp2": theirs, **far}))
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("FCDP_CACHE", sys.argv[1])
    main(Path(sys.argv[1]))
