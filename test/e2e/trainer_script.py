# SPDX-License-Identifier: Apache-2.0
"""One rank of a job that trains small Llamas with Trainer, and with fcdp's CompiledTrainer, one after the other.

usage: trainer_script.py FOLDER JOBS

JOBS is JSON, a list of {"name": ..., "kind": "plain" or "compiled", "arguments": further ones of TrainingArguments,
"resume": a checkpoint, "rows": of the training data, "evaluate": whether there is data to evaluate, at least at the
end, "pretrained": whether the model comes from from_pretrained, in evaluation mode, with all of its attention dropped
in training, "dynamic": whether batches are as long as their longest row, "lengths": those of CompiledTrainer,
"metrics": whether there are metrics of predictions, and predictions at the end, which are compared with those of the
plain Trainer with the saved model; a part of the model is frozen then, "experts": whether the model is a mixture of
experts}. Each rank writes FOLDER/NAME/result-RANK.json with the log history, or the error, and rank 0 the model to
FOLDER/NAME/model.
"""

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    EvalPrediction,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Trainer,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import PredictionOutput

from fcdp.errors import StepError
from fcdp.integrations.transformers import CompiledTrainer

LENGTH, VOCABULARY = 12, 29


class Rows(Dataset):
    """Rows whose numbers of tokens differ, padded to one length unless `collate` pads them."""

    def __init__(self, count: int, seed: int, is_dynamic: bool = False):
        self.is_dynamic = is_dynamic
        draw = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(VOCABULARY, (count, LENGTH), generator=draw)
        self.lengths = torch.randint(3, LENGTH + 1, (count,), generator=draw)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        if self.is_dynamic:
            return {"input_ids": self.ids[i, : self.lengths[i]]}
        is_token = torch.arange(LENGTH) < self.lengths[i]
        return {
            "input_ids": self.ids[i] * is_token,
            "attention_mask": is_token.long(),
            "labels": torch.where(is_token, self.ids[i], -100),
        }


class Collator:
    """Pads rows to a multiple of four, and remembers the first tokens of all."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []

    def __call__(self, rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        tokens = [row["input_ids"] for row in rows]
        self.seen += [row[:3].tolist() for row in tokens]
        length = -(-max(map(len, tokens)) // 4) * 4

        def padded(value: int, rows: list[torch.Tensor]) -> torch.Tensor:
            return torch.stack([torch.nn.functional.pad(row, (0, length - len(row)), value=value) for row in rows])

        masks = [torch.ones_like(row) for row in tokens]
        return {"input_ids": padded(0, tokens), "attention_mask": padded(0, masks), "labels": padded(-100, tokens)}


def metrics(predicted: EvalPrediction) -> dict[str, float]:
    hits = (predicted.predictions[:, :-1] == predicted.label_ids[:, 1:])[predicted.label_ids[:, 1:] != -100]
    return {"accuracy": float(hits.mean()), "rows": len(predicted.predictions), "losses": len(predicted.losses)}


def most_likely(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Rows of ranks with shorter rows are padded with -100."""
    return logits.argmax(-1).where((logits != -100).any(-1), -100)


def make_model(has_experts: bool = False) -> LlamaForCausalLM | MixtralForCausalLM:
    set_seed(3)
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    shape.update(vocab_size=VOCABULARY, max_position_embeddings=LENGTH)
    if has_experts:
        # With the loss of the router.
        return MixtralForCausalLM(MixtralConfig(num_key_value_heads=2, num_local_experts=4, output_router_logits=True, **shape))
    return LlamaForCausalLM(LlamaConfig(**shape))


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
    collator, is_dynamic = Collator(), job.get("dynamic", False)
    rest: dict[str, Any] = {"train_dataset": Rows(job.get("rows", 16), 1, is_dynamic)}
    # An evaluation is exported with the step.
    if job.get("evaluate"):
        rest["eval_dataset"] = Rows(10, 2, is_dynamic)
    if is_dynamic:
        rest["data_collator"] = collator
    if job.get("metrics"):
        rest.update(compute_metrics=metrics, preprocess_logits_for_metrics=most_likely)
    make_trainer, arguments = maker(run, job)
    model = load_model(run / "pretrained") if job.get("pretrained") else make_model(job.get("experts", False))
    model.model.norm.requires_grad_(not job.get("metrics"))
    trainer = make_trainer(model, arguments, **rest)
    result: dict[str, Any] = {}
    try:
        trainer.train(resume_from_checkpoint=job.get("resume"))
        result["training"] = trainer.model.training
        result["embedding"] = model.model.embed_tokens.weight.double().sum().item()
        collated = collator.seen
        result["after"] = trainer.evaluate() if job.get("evaluate") else {}
        trainer.save_model(str(run / "model"))
        if job.get("metrics"):
            trainer.accelerator.wait_for_everyone()
            saved = Trainer(LlamaForCausalLM.from_pretrained(run / "model"), arguments, **rest)
            rows = Rows(7, 5, is_dynamic)
            found, expected = trainer.predict(rows), saved.predict(rows)
            result["predicted"] = {"metrics": [found.metrics, expected.metrics], "equal": are_equal(found, expected)}
            result["predicted"]["shape"] = list(found.predictions.shape)
    finally:
        if job["kind"] == "compiled":
            trainer.close()
    return {**result, "history": trainer.state.log_history, "seen": collated}


def maker(run: Path, job: dict[str, Any]) -> tuple[Any, TrainingArguments]:
    given = dict(job.get("arguments", {}))
    if job["kind"] == "plain":
        return Trainer, make_arguments(run, **given)
    if job.get("fsdp"):
        config = {"activation_checkpointing": given.pop("activation_checkpointing")}
        given.update(fsdp="full_shard auto_wrap", fsdp_config=config)
    arguments = make_arguments(run, **given)
    options = {"cache": run.parent / "cache", "threads": 1, "check": False}
    return partial(CompiledTrainer, step_options=options, lengths=job.get("lengths", ())), arguments


def are_equal(found: PredictionOutput, expected: PredictionOutput) -> bool:
    """Bit for bit: the same model has run with the same values."""
    pairs = (found.predictions, expected.predictions), (found.label_ids, expected.label_ids)
    return all(one.shape == other.shape and np.array_equal(one, other) for one, other in pairs)


def main(folder: Path, jobs: list[dict[str, Any]]) -> None:
    for job in jobs:
        run = folder / job["name"]
        try:
            result = train(run, job)
        except StepError as error:
            result = {"error": f"{error.code}: {error}"}
        run.mkdir(parents=True, exist_ok=True)
        (run / f"result-{os.environ.get('RANK', '0')}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
