# SPDX-License-Identifier: Apache-2.0
"""Trains a test model in plain PyTorch from its archive's weights, on the data that fcdp-run would read."""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

import fcdp
from models import build


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: python reference.py gpt --models out --world 4 --steps 5 --optimizer adamw,lr=1e-3 --out f.json",
    )
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--models", type=Path, required=True, help="the folder make_models.py wrote")
    parser.add_argument("--world", type=int, default=1, help="ranks (default 1)")
    parser.add_argument("--micro-batches", type=int, default=1, help="per rank and step (default 1)")
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--optimizer", default="adamw,lr=1e-3")
    parser.add_argument("--seed", type=int, default=0, help="rank r's random generator starts at SEED + r (default 0)")
    parser.add_argument("--out", type=Path, required=True, help='JSON file {"losses": [one per step]}')
    parser.add_argument("--params", type=Path, help="safetensors file for the trained parameters and rank 0's buffers")
    args = parser.parse_args()

    metadata = json.loads((args.models / f"{args.name}.json").read_text())
    model = build(args.name, metadata["seed"])
    check_same_weights(model, args.models / f"{args.name}.pt2")
    files = {key: args.models / entry["file"] for key, entry in metadata["inputs"].items()}
    data = fcdp.batches_from_npy(files, args.world, args.micro_batches)
    losses = fcdp.reference(model, data, args.optimizer, args.steps, world=args.world, seed=args.seed)
    args.out.write_text(json.dumps({"losses": losses}) + "\n")
    if args.params:
        tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, args.params)


def check_same_weights(model: nn.Module, archive: Path) -> None:
    """Exits if the archive was made from other initial weights than the model built here."""
    weights = torch.export.load(archive).state_dict
    differ = [name for name, value in model.state_dict().items() if not torch.equal(value, weights[name])]
    if differ:
        raise SystemExit(f"{archive}: its weights are not those of this seed: {', '.join(differ[:3])}")


if __name__ == "__main__":
    main()
