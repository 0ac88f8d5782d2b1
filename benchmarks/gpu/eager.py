#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a prepared step's model in PyTorch and prints losses and seconds as JSON.

It is a separate process, so that its memory is freed when it ends.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import torch
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
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    prepared = next(one for one in load(Path(__file__).with_name("steps.json")) if one.name == args.step)
    losses, seconds = train(prepared, args)
    json.dump({"losses": losses, "seconds": seconds}, sys.stdout)


def train(prepared: Prepared, args: argparse.Namespace) -> tuple[list[float], float]:
    """Returns the losses of all steps, and the seconds of one timed step."""
    shape = prepared.shape
    model = load_model(shape, args.weights, args.device)
    run = torch.compile(model) if args.compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, **OPTIMIZER)
    losses, begin = [], time.perf_counter()
    for step in range(args.warm_up + args.steps):
        ids, labels = (part.to(args.device, non_blocking=True) for part in batch(args.tokens, shape, step))
        if step == args.warm_up:
            synchronize(args.device)
            begin = time.perf_counter()
        loss = run(ids, labels)
        loss.backward()
        if args.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    synchronize(args.device)
    seconds = (time.perf_counter() - begin) / args.steps
    return [loss.item() for loss in losses], seconds


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
