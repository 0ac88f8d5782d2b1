# SPDX-License-Identifier: Apache-2.0
"""Makes checkpoints as fcdp-run writes them, without any of fcdp-ckpt's code."""

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

DTYPES = {
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int64: "I64",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


@dataclass
class Made:
    """A state; `tensors` has one for each rank, or for each node, if these have their own."""

    names: list[str]
    role: str
    tensor: torch.Tensor | None = None
    tensors: list[torch.Tensor] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    owner: str = "rank"  # Or "node".

    @property
    def like(self) -> torch.Tensor:
        return self.tensor if self.tensor is not None else self.tensors[0]


def parameter(names: list[str], value: torch.Tensor, updates: int = 7, trainable: bool = True) -> list[Made]:
    """A value with AdamW's states and, unless it is float32, a master."""
    settings = {"updates": updates if trainable else 0, "trainable": trainable}
    made = [Made(names, "value", value, settings=settings)]
    if trainable:
        made += [Made(names, role, torch.rand(value.shape)) for role in ("exp_avg", "exp_avg_sq")]
        if value.dtype != torch.float32:
            made.append(Made(names, "master", value.float() + 1e-4))
    return made


def model_states(world_size: int) -> list[Made]:
    """Tied, frozen, bfloat16, scalar and empty parameters, and all kinds of buffers."""
    return [
        *parameter(["embed.weight", "head.weight"], torch.randn(11, 6)),
        *parameter(["fc.weight"], torch.randn(5, 6).bfloat16()),
        *parameter(["fc.bias"], torch.randn(5)),
        *parameter(["scale"], torch.randn(())),
        *parameter(["nothing"], torch.randn(0, 3)),
        *parameter(["adapter.base"], torch.randn(3, 2, 4), trainable=False),
        Made(["conv.weight"], "value", torch.randn(4, 1, 2, 2), settings={"updates": 7, "trainable": True}),
        Made(["conv.weight"], "momentum_buffer", torch.randn(4, 1, 2, 2)),
        Made(["mask"], "buffer", torch.arange(9) % 2 == 0, settings={"persistent": True}),
        Made(["rotary"], "buffer", torch.randn(7), settings={"persistent": False}),
        Made(
            ["norm.running_mean"],
            "buffer",
            tensors=[torch.randn(5) for _ in range(world_size)],
            settings={"persistent": True},
        ),
        Made(
            ["norm.num_batches"],
            "buffer",
            tensors=[torch.tensor(rank + 3) for rank in range(world_size)],
            settings={"persistent": True},
        ),
        Made(["torch"], "random", tensors=[torch.randint(256, (24,), dtype=torch.uint8) for _ in range(world_size)]),
    ]


def residuals(nodes: int) -> list[Made]:
    """Makes the residuals that reductions in 8 bits keep of a parameter on each node."""
    return [Made(["fc.weight"], "residual", tensors=[torch.randn(5, 6) for _ in range(nodes)], owner="node")]


def outer_states(nodes: int) -> list[Made]:
    """A parameter that each node has for itself, and what nodes have in common."""
    values = [torch.randn(3, 4).bfloat16() for _ in range(nodes)]
    return [
        Made(["own.weight"], "value", tensors=values, owner="node", settings={"updates": 7, "trainable": True}),
        Made(["own.weight"], "outer", torch.randn(3, 4)),
        Made(["own.weight"], "outer_momentum", torch.randn(3, 4)),
    ]


def write(
    folder: Path, states: list[Made], world_size: int = 1, step: int = 7, seed: int = 0, nodes: int = 1
) -> Path:
    """Writes the states cut into random pieces, which are on random ranks."""
    rng = random.Random(seed)
    files: list[dict[str, torch.Tensor]] = [{} for _ in range(world_size)]
    entries = []
    for state in states:
        pieces = []
        key = f"{state.role}/{state.names[0]}"
        if state.tensors is not None:
            kind = "" if state.owner == "rank" else "node"
            for owner, tensor in enumerate(state.tensors):
                rank = owner if state.owner == "rank" else owner * world_size // nodes
                files[rank][f"{key}@0#{kind}{owner}"] = tensor.reshape(-1).clone()
                pieces.append({"file": rank, "offset": 0, "length": tensor.numel(), state.owner: owner})
        else:
            flat = state.tensor.reshape(-1)
            cuts = sorted({0, flat.numel(), *(rng.randint(0, flat.numel()) for _ in range(world_size))})
            for begin, end in zip(cuts, cuts[1:]):
                rank = rng.randrange(world_size)
                files[rank][f"{key}@{begin}"] = flat[begin:end].clone()
                pieces.append({"file": rank, "offset": begin, "length": end - begin})
            rng.shuffle(pieces)
        entries.append(
            {
                "names": state.names,
                "role": state.role,
                "dtype": DTYPES[state.like.dtype],
                "shape": list(state.like.shape),
                **state.settings,
                "pieces": pieces,
            }
        )
    folder.mkdir(parents=True)
    index = {
        "format": "fcdp-checkpoint",
        "version": 1,
        "step": step,
        "world_size": world_size,
        "nodes": nodes,
        "plan_hash": "0123abcd",
        "job": {"seed": 5, "micro_batches": 2},
        "files": [],
        "states": entries,
    }
    for rank, tensors in enumerate(files):
        name = f"rank-{rank:05}-of-{world_size:05}.safetensors"
        save_file(tensors, folder / name)
        index["files"].append({"name": name, "bytes": (folder / name).stat().st_size})
    (folder / "index.json").write_text(json.dumps(index))
    return folder


def weights(states: list[Made], rank: int = 0) -> dict[str, torch.Tensor]:
    """Returns the tensors of PyTorch's state_dict of the model."""
    found = {}
    for state in states:
        if state.role == "value" or (state.role == "buffer" and state.settings["persistent"]):
            tensor = state.tensor if state.tensor is not None else state.tensors[rank]
            found.update({name: tensor for name in state.names})
    return found
