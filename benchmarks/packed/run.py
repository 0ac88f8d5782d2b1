#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times steps of a Llama on rows of several documents: document by document, and under a mask over the whole square.

Prints the process's time instead of the clock's, because other programs disturb it less, and the largest difference of
losses.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

import fcdp  # noqa: E402
from fcdp import exporter  # noqa: E402

VOCABULARY = 512


@dataclass(frozen=True)
class Measured:
    seconds: list[float]
    losses: list[float]
    peak: int


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=2048, help="tokens of a row (default: 2048)")
    parser.add_argument("--hidden", type=int, default=512, help="hidden size, in heads of 64 (default: 512)")
    parser.add_argument("--layers", type=int, default=2, help="layers (default: 2)")
    help_text = "documents of a row, of different lengths (default: 1 4 16 64)"
    parser.add_argument("--documents", type=int, nargs="+", default=[1, 4, 16, 64], help=help_text)
    parser.add_argument("--steps", type=int, default=5, help="steps that count, after two (default: 5)")
    parser.add_argument("--threads", type=int, default=1, help="threads (default: 1)")
    return parser.parse_args()


def batch(tokens: int, documents: int, seed: int) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), 1 + torch.randperm(tokens - 1, generator=draw)[: documents - 1]])
    places, firsts = torch.arange(tokens), torch.zeros(tokens, dtype=torch.int64)
    firsts[starts] = starts
    ids = torch.randint(VOCABULARY, (1, tokens), generator=draw)
    return {"input_ids": ids, "labels": ids, "position_ids": (places - firsts.cummax(0).values)[None]}


@contextmanager
def masked() -> Iterator[None]:
    """Has exports keep the masks of Transformers."""
    original = exporter.attend_by_document
    exporter.attend_by_document = lambda joint: None
    try:
        yield
    finally:
        exporter.attend_by_document = original


def measure(options: argparse.Namespace, documents: int, cache: str) -> Measured:
    torch.manual_seed(0)
    shape = {"hidden_size": options.hidden, "intermediate_size": 2 * options.hidden, "num_hidden_layers": options.layers}
    heads = {"num_attention_heads": options.hidden // 64}
    more = {**heads, "max_position_embeddings": options.tokens, "use_cache": False}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, **shape, **more)).train()
    settings = {"optimizer": "sgd,lr=0.1", "cache": cache, "threads": options.threads, "check": False}
    seconds, losses = [], []
    with fcdp.compile(model, batch(options.tokens, 1, 0), **settings) as step:
        for number in range(options.steps + 2):
            given = batch(options.tokens, documents, number)
            begin = time.process_time()
            losses.append(step(**given).item())
            seconds.append(time.process_time() - begin)
        peak = step.figures["device_peak_bytes"]
    return Measured(seconds[2:], losses, peak)


def main() -> None:
    options = parse()
    torch.set_num_threads(options.threads)
    titles = ("documents", "under a mask", "by documents", "memory under a mask", "by documents", "difference of losses")
    print(f"| {' | '.join(titles)} |\n|" + "---|" * len(titles))
    with tempfile.TemporaryDirectory() as folder:
        for documents in options.documents:
            with masked():
                square = measure(options, documents, f"{folder}/masked")
            packed = measure(options, documents, f"{folder}/packed")
            difference = max(abs(one / other - 1) for one, other in zip(square.losses, packed.losses))
            times = (f"{statistics.median(found.seconds):.2f} s" for found in (square, packed))
            memory = (f"{found.peak / 2**20:.0f} MiB" for found in (square, packed))
            print(f"| {documents} | {' | '.join([*times, *memory])} | {difference:.1e} |", flush=True)


if __name__ == "__main__":
    main()
