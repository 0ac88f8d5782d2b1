#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a prepared step's model in PyTorch and prints losses and seconds as JSON.

Without a step it measures how fast pinned memory is copied. It is a separate process, so that its memory is freed when
it ends.
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

COPIED = 1 << 28  # bytes
COPIES = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step", help="name of the step in steps.json (default: measure copies)")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--tokens", type=Path)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--warm-up", type=int, default=0, help="number of first steps that are not timed (default 0)")
    parser.add_argument("--clip-norm", type=float)
    parser.add_argument("--compiled", action="store_true", help="use torch.compile")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    if args.step is None:
        result = {"d2h": bandwidth(to_host=True), "h2d": bandwidth(to_host=False)}
    else:
        prepared = next(one for one in load(Path(__file__).with_name("steps.json")) if one.name == args.step)
        losses, seconds = train(prepared, args)
        result = {"losses": losses, "seconds": seconds}
    json.dump(result, sys.stdout)


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


def bandwidth(to_host: bool) -> float:
    """Returns the bytes per second of copies of pinned memory."""
    there = torch.zeros(COPIED, dtype=torch.uint8, device="cuda")
    here = torch.zeros(COPIED, dtype=torch.uint8, pin_memory=True)
    target, source = (here, there) if to_host else (there, here)
    target.copy_(source)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(COPIES):
        target.copy_(source, non_blocking=True)
    torch.cuda.synchronize()
    return COPIES * COPIED / (time.perf_counter() - begin)


if __name__ == "__main__":
    main()
