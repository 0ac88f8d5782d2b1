# SPDX-License-Identifier: Apache-2.0
"""Settings of Transformers' Trainer that a compiled step cannot honour are refused by name."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import TrainingArguments

from fcdp.errors import StepError
from fcdp.integrations import training_arguments
from fcdp.integrations.training_arguments import check_arguments
from fcdp.integrations.transformers import CompiledTrainer


def arguments(folder: Path, **settings: Any) -> TrainingArguments:
    return TrainingArguments(output_dir=str(folder), **{"use_cpu": True, "report_to": "none", **settings})


def test_defaults_are_accepted(tmp_path: Path) -> None:
    check_arguments(arguments(tmp_path))


def test_all_settings_are_known() -> None:
    """A setting that Transformers adds is refused until it is looked at."""
    known = training_arguments._HONOURED | training_arguments._REFUSED.keys() | set(training_arguments._PARTLY)
    assert known == {field.name for field in dataclasses.fields(TrainingArguments)}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fp16": True}, "fp16: a compiled step cannot honour True; use bf16=True, or a model in float16"),
        ({"bf16_full_eval": True}, "bf16_full_eval: .* evaluations have the types of steps"),
        ({"torch_compile": True}, "torch_compile: .* the step is compiled already"),
        ({"neftune_noise_alpha": 5.0}, "neftune_noise_alpha: .* 5.0; add the noise in the model's own forward"),
        ({"auto_find_batch_size": True}, "auto_find_batch_size: .* set per_device_train_batch_size"),
        ({"eval_do_concat_batches": False}, "eval_do_concat_batches: .* returns the loss alone"),
        ({"include_for_metrics": ["loss"]}, "include_for_metrics: .* returns the loss alone"),
        ({"save_on_each_node": True}, "save_on_each_node: .* a folder that all nodes share"),
        ({"ddp_find_unused_parameters": False}, None),
        ({"ddp_bucket_cap_mb": 25}, "ddp_bucket_cap_mb: .* nothing is wrapped in DistributedDataParallel"),
        ({"train_sampling_strategy": "batch_rebalance"}, "train_sampling_strategy: .* as many rows"),
        ({"accelerator_config": {"even_batches": False}}, "accelerator_config: .*even_batches=False"),
        ({"activation_checkpointing_kwargs": {"offload": True}}, "activation_checkpointing_kwargs: .*offload=True"),
        ({"activation_checkpointing_kwargs": {"use_reentrant": True}}, "set use_reentrant=False"),
        ({"debug": "underflow_overflow"}, "debug: .* modules do not run in a compiled step"),
        ({"use_cache": True}, None),
    ],
)
def test_refused(tmp_path: Path, settings: dict[str, Any], message: str | None) -> None:
    if message is None:
        check_arguments(arguments(tmp_path, **settings))
        return
    with pytest.raises(StepError, match=message) as raised:
        check_arguments(arguments(tmp_path, **settings))
    assert raised.value.code == "misuse"


@pytest.mark.parametrize("name", ["fsdp", "deepspeed"])
def test_other_systems(tmp_path: Path, name: str) -> None:
    """TrainingArguments themselves ask for these packages and launchers."""
    args = arguments(tmp_path)
    setattr(args, name, "something")
    with pytest.raises(StepError, match=f"{name}: .* choose how states are sharded by step_options"):
        check_arguments(args)


def test_unknown_settings(tmp_path: Path) -> None:
    made = dataclasses.make_dataclass("Newer", [("brand_new", bool, False)], bases=(TrainingArguments,))
    check_arguments(made(output_dir=str(tmp_path), use_cpu=True))
    with pytest.raises(StepError, match="brand_new: .* this version of fcdp does not know it"):
        check_arguments(made(output_dir=str(tmp_path), use_cpu=True, brand_new=True))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor]:
        return ((self.layer(x) - labels).square().mean(),)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"compute_metrics": len}, "compute_metrics: .* returns the loss alone"),
        ({"preprocess_logits_for_metrics": len}, "preprocess_logits_for_metrics: .* returns the loss alone"),
        ({"step_options": {"micro_batches": 2}}, "step_options.'micro_batches'.: .* set what TrainingArguments have"),
    ],
)
def test_refused_by_the_trainer(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(StepError, match=message):
        CompiledTrainer(Model(), arguments(tmp_path), **given)


def test_an_optimizer_without_equal(tmp_path: Path) -> None:
    trainer = CompiledTrainer(Model(), arguments(tmp_path, optim="adagrad"))
    with pytest.raises(StepError, match="optim: optimizer: expected one of AdamW"):
        trainer.create_optimizer()


def test_the_model_does_not_run(tmp_path: Path) -> None:
    trainer = CompiledTrainer(Model(), arguments(tmp_path))
    trainer.create_optimizer()
    with pytest.raises(StepError, match="its step is compiled"):
        trainer.model_wrapped(torch.ones(1, 2), torch.ones(1, 1))
    with pytest.raises(StepError, match="prediction_step"):
        trainer.prediction_step(trainer.model, {}, True)


def test_the_page_has_all_that_is_refused() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/pytorch.md").read_text()
    by_advice: dict[str, list[str]] = {}
    for name, advice in training_arguments._REFUSED.items():
        by_advice.setdefault(advice, []).append(f"`{name}`")
    for advice, names in by_advice.items():
        assert f"| {', '.join(names)} | {advice} |" in page


def test_ranks_that_the_trainer_does_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accelerate does not read the variables of srun: all ranks would train on the same rows."""
    for name in ("RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    place = {"SLURM_PROCID": 1, "SLURM_LOCALID": 1, "SLURM_NODEID": 0}
    for name, value in {"SLURM_STEP_NUM_TASKS": 2, "SLURM_STEP_NUM_NODES": 1, **place}.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(StepError, match="expected 2 processes, as the launcher started, got 1.*torchrun") as raised:
        CompiledTrainer(nn.Linear(2, 2), arguments(tmp_path), train_dataset=[])
    assert raised.value.code == "misuse"
