# SPDX-License-Identifier: Apache-2.0
"""One rank of a job that trains small Llamas with Trainer, and with fcdp's CompiledTrainer, one after the other.

usage: trainer_script.py FOLDER JOBS

JOBS is JSON, a list of {"name": ..., "kind": "plain" or "compiled", "arguments": further ones of TrainingArguments, "resume": a
checkpoint, "rows": of the training data, "evaluate": whether there is data to evaluate, at least at the end, "pretrained": whether
the model comes from from_pretrained, in evaluation mode, with all of its attention dropped in training}. Rank 0 writes
FOLDER/NAME/result.json with the log history or the error, and the model to FOLDER/NAME/model.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

from fcdp.errors import StepError
from fcdp.integrations.transformers import CompiledTrainer

LENGTH, VOCABULARY = 12, 29


class Rows(Dataset):
    """Rows whose numbers of tokens differ, padded to one length."""

    def __init__(self, count: int, seed: int):
        draw = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(VOCABULARY, (count, LENGTH), generator=draw)
        self.lengths = torch.randint(3, LENGTH + 1, (count,), generator=draw)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        is_token = torch.arange(LENGTH) < self.lengths[i]
        return {
            "input_ids": self.ids[i] * is_token,
            "attention_mask": is_token.long(),
            "labels": torch.where(is_token, self.ids[i], -100),
        }


def make_model() -> LlamaForCausalLM:
    set_seed(3)
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=LENGTH, **shape))


def load_model(folder: Path) -> LlamaForCausalLM:
    """Returns a model whose dropout has no randomness, because nothing is left of what it drops."""
    make_model().save_pretrained(folder)
    model = LlamaForCausalLM.from_pretrained(folder, attention_dropout=1.0)
    assert not model.training
    return model


def make_arguments(run: Path, **more: Any) -> TrainingArguments:
    settings = {
        "per_device_train_batch_size": 2,
        "per_device_eval_batch_size": 3,
        "gradient_accumulation_steps": 2,
        "max_steps": 6,
        "learning_rate": 1e-2,
        # PyTorch's eps turns rounding noise into updates of full length.
        "adam_epsilon": 1e-3,
        "weight_decay": 0.1,
        "lr_scheduler_type": "cosine",
        "warmup_steps": 2,
        "max_grad_norm": 0.5,
        "logging_steps": 1,
        "save_strategy": "no",
    }
    return TrainingArguments(output_dir=str(run), use_cpu=True, disable_tqdm=True, report_to="none", **{**settings, **more})


def train(run: Path, job: dict[str, Any]) -> dict[str, Any]:
    arguments = make_arguments(run, **job.get("arguments", {}))
    data = {"train_dataset": Rows(job.get("rows", 16), 1)}
    # An evaluation is exported with the step.
    if job.get("evaluate"):
        data["eval_dataset"] = Rows(10, 2)
    model = load_model(run / "pretrained") if job.get("pretrained") else make_model()
    if job["kind"] == "plain":
        trainer = Trainer(model, arguments, **data)
    else:
        options = {"cache": run.parent / "cache", "threads": 1, "check": False}
        trainer = CompiledTrainer(model, arguments, **data, step_options=options)
    try:
        trainer.train(resume_from_checkpoint=job.get("resume"))
        is_training = trainer.model.training
        after = trainer.evaluate() if job.get("evaluate") else {}
        trainer.save_model(str(run / "model"))
    finally:
        if job["kind"] == "compiled":
            trainer.close()
    return {"history": trainer.state.log_history, "after": after, "training": is_training}


def main(folder: Path, jobs: list[dict[str, Any]]) -> None:
    for job in jobs:
        run = folder / job["name"]
        try:
            result = train(run, job)
        except StepError as error:
            result = {"error": f"{error.code}: {error}"}
        if os.environ.get("RANK", "0") == "0":
            run.mkdir(parents=True, exist_ok=True)
            (run / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
