#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a prepared step's model in PyTorch and prints losses and seconds as JSON.

It is a separate process, so that its memory is freed when it ends.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from steps import OPTIMIZER, Prepared, load
from tokens import batch
from weights import load as load_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step", required=True, help="name of the step in steps.json")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--tokens", type=Path)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--warm-up", type=int, default=0, help="number of first steps that are not timed (default 0)")
    parser.add_argument("--clip-norm", type=float)
    parser.add_argument("--compiled", action="store_true", help="use torch.compile")
    parser.add_argument("--fsdp2", action="store_true", help="shard with FSDP2, over this process alone")
    parser.add_argument("--profile", type=Path, help="write the GPU's time by kernel in the last step to this file")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    prepared = next(one for one in load(Path(__file__).with_name("steps.json")) if one.name == args.step)
    losses, seconds = train(prepared, args)
    peak = torch.cuda.max_memory_reserved() if args.device == "cuda" else 0
    json.dump({"losses": losses, "seconds": seconds, "peak_bytes": peak}, sys.stdout)
    if args.fsdp2:
        dist.destroy_process_group()


def train(prepared: Prepared, args: argparse.Namespace) -> tuple[list[float], float]:
    """Returns the losses of all steps, and the seconds of one timed step."""
    shape = prepared.shape
    model = load_model(shape, args.weights, args.device)
    if args.fsdp2:
        shard(model, args.device)
    run = torch.compile(model) if args.compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, **OPTIMIZER)

    def one_step(step: int) -> torch.Tensor:
        ids, labels = (part.to(args.device, non_blocking=True) for part in batch(args.tokens, shape, step))
        loss = run(ids, labels)
        loss.backward()
        if args.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    losses = [one_step(step) for step in range(args.warm_up)]
    synchronize(args.device)
    begin = time.perf_counter()
    losses += [one_step(args.warm_up + step) for step in range(args.steps)]
    synchronize(args.device)
    seconds = (time.perf_counter() - begin) / args.steps
    if args.profile is not None:
        write_profile(args.profile, one_step, args.warm_up)
    return [loss.item() for loss in losses], seconds


def shard(model: torch.nn.Module, device: str) -> None:
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("nccl" if device == "cuda" else "gloo", store=dist.HashStore(), rank=0, world_size=1)
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)


def write_profile(path: Path, one_step: Callable[[int], torch.Tensor], step: int) -> None:
    with torch.profiler.profile() as profile:
        one_step(step)
    path.write_text(profile.key_averages().table(sort_by="self_cuda_time_total", row_limit=60, max_name_column_width=100))


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
