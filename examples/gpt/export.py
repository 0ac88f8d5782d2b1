# SPDX-License-Identifier: Apache-2.0
"""Exports the example's training step and writes its tokens: step.pt2, tokens.u16 and vocabulary.json."""

import argparse
from pathlib import Path

import torch

import fcdp
from model import GPT, GPTConfig
from text import read_text, write_tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python export.py --out gpt-out")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--batch", type=int, default=4, help="sequences per rank and micro-batch (default 4)")
    parser.add_argument("--layers", type=int, default=GPTConfig.layers)
    parser.add_argument("--heads", type=int, default=GPTConfig.heads)
    parser.add_argument("--width", type=int, default=GPTConfig.width, help="a multiple of the heads (default 384)")
    parser.add_argument("--tied", action="store_true", help="share the embedding's weight with the head")
    parser.add_argument("--seed", type=int, default=0, help="seed of the initial weights (default 0)")
    args = parser.parse_args()

    args.out.mkdir(parents=True, exist_ok=True)
    vocabulary = write_tokens(read_text(), args.out)
    config = GPTConfig(vocabulary, layers=args.layers, heads=args.heads, width=args.width, tied_head=args.tied)
    torch.manual_seed(args.seed)
    model = GPT(config)
    ids = torch.randint(vocabulary, (args.batch, config.context))
    labels = torch.randint(vocabulary, (args.batch, config.context))
    exported = fcdp.export(model, (ids, labels), args.out / "step.pt2")
    parameters = sum(p.numel() for p in model.parameters())
    print(
        f"{exported.path}: {parameters} parameters, {len(exported.units)} units, {exported.nodes} operations; "
        f"gradients within {exported.gradient_error:.1e} of eager's"
    )


if __name__ == "__main__":
    main()
