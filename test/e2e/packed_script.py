# SPDX-License-Identifier: Apache-2.0
"""One rank of a job that trains a small Llama on packed rows, with fcdp.compile and with CompiledTrainer.

usage: packed_script.py CACHE

Rank 0 prints JSON: the losses of the compiled steps, of PyTorch on the batches of all ranks, and of PyTorch on rows
that are one document each; then the losses of Trainer and of CompiledTrainer.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

import fcdp
from fcdp.integrations.packing import PaddedFlattening
from fcdp.integrations.transformers import CompiledTrainer

TOKENS, VOCABULARY, STEPS, RANKS = 24, 29, 4, 2


def make_model() -> nn.Module:
    torch.manual_seed(3)
    shape = {"hidden_size": 32, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
    settings = {"vocab_size": VOCABULARY, "max_position_embeddings": TOKENS, "num_key_value_heads": 2, "use_cache": False}
    return LlamaForCausalLM(LlamaConfig(**shape, **settings)).train()


def batch(rank: int, step: int) -> dict[str, torch.Tensor]:
    """Two rows of documents, whose boundaries differ by row, rank and step."""
    draw = torch.Generator().manual_seed(100 * rank + step)
    starts = torch.rand(2, TOKENS, generator=draw) < 0.3
    starts[:, 0] = True
    places = torch.arange(TOKENS).expand(2, TOKENS)
    positions = places - torch.where(starts, places, 0).cummax(dim=1).values
    ids = torch.randint(VOCABULARY, (2, TOKENS), generator=draw)
    return {"input_ids": ids, "labels": ids.masked_fill(starts, -100), "position_ids": positions}


def eager(packed: bool) -> Iterator[float]:
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(STEPS):
        batches = [batch(rank, step) for rank in range(RANKS)]
        for given in () if packed else batches:
            given["attention_mask"] = torch.ones_like(given["input_ids"])
        loss = sum(model(**given).loss for given in batches) / RANKS
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def rows(count: int) -> list[dict[str, list[int]]]:
    draw = torch.Generator().manual_seed(7)
    lengths = torch.randint(1, TOKENS // 2, (count,), generator=draw).tolist()
    return [{"input_ids": torch.randint(VOCABULARY, (length,), generator=draw).tolist()} for length in lengths]


def losses_of(kind: type[Trainer], folder: Path, **more: Any) -> list[float]:
    arguments = TrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        disable_tqdm=True,
        report_to="none",
        save_strategy="no",
        logging_steps=1,
        max_steps=STEPS,
        per_device_train_batch_size=2,
        learning_rate=1e-2,
        adam_epsilon=1e-3,
    )
    trainer = kind(make_model(), arguments, train_dataset=rows(16), data_collator=PaddedFlattening(TOKENS), **more)
    trainer.train()
    if isinstance(trainer, CompiledTrainer):
        trainer.close()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def main(cache: Path) -> None:
    settings = {"optimizer": "sgd,lr=0.5", "cache": str(cache), "threads": 1}
    # The example is one document, and those of later batches differ.
    example = {**batch(0, 0), "position_ids": torch.arange(TOKENS).repeat(2, 1)}
    with fcdp.compile(make_model(), example, **settings) as step:
        losses, rank = [step(**batch(step.rank, number)).item() for number in range(STEPS)], step.rank
    trained = [losses_of(Trainer, cache / "plain")]
    trained += [losses_of(CompiledTrainer, cache / "compiled", step_options={"cache": str(cache), "threads": 1})]
    if rank == 0:
        print(json.dumps([losses, list(eager(True)), list(eager(False)), *trained]))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
