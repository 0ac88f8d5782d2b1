# SPDX-License-Identifier: Apache-2.0
"""Settings of Transformers' Trainer that a compiled step cannot honour are refused by name."""

import dataclasses
import random
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, T5Config, T5ForConditionalGeneration, TrainingArguments

from fcdp.errors import StepError
from fcdp.integrations import training_arguments
from fcdp.integrations.training_arguments import check_arguments, without_fsdp
from fcdp.integrations.transformers import CompiledTrainer


def arguments(folder: Path, **settings: Any) -> TrainingArguments:
    return TrainingArguments(output_dir=str(folder), **{"use_cpu": True, "report_to": "none", **settings})


def test_defaults_are_accepted(tmp_path: Path) -> None:
    check_arguments(arguments(tmp_path))


def test_all_settings_are_known() -> None:
    """A setting that Transformers adds is refused until it is looked at."""
    known = training_arguments._HONOURED | training_arguments._REFUSED.keys()
    known |= {*training_arguments._PARTLY, *training_arguments._WITHOUT_EFFECT}
    assert known == {field.name for field in dataclasses.fields(TrainingArguments)}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fp16": True}, "fp16: a compiled step cannot honour True; use bf16=True, or a model in float16"),
        ({"bf16_full_eval": True}, "bf16_full_eval: .* evaluations have the types of steps"),
        ({"torch_compile": True}, "torch_compile: .* the step is compiled already"),
        ({"neftune_noise_alpha": 5.0}, None),
        ({"auto_find_batch_size": True}, "auto_find_batch_size: .* set per_device_train_batch_size"),
        ({"eval_do_concat_batches": False, "include_for_metrics": ["loss"]}, None),
        ({"save_on_each_node": True}, "save_on_each_node: .* a folder that all nodes share"),
        ({"ddp_find_unused_parameters": False}, None),
        ({"ddp_broadcast_buffers": True}, "ddp_broadcast_buffers: .* each rank has its own buffers, and rank 0's are saved"),
        ({"train_sampling_strategy": "batch_rebalance"}, "train_sampling_strategy: .* the same number of rows"),
        ({"accelerator_config": {"even_batches": False}}, "accelerator_config: .*even_batches=False"),
        ({"activation_checkpointing_kwargs": {"offload": True}}, "activation_checkpointing_kwargs: .*offload=True"),
        ({"activation_checkpointing_kwargs": {"use_reentrant": True}}, "set use_reentrant=False"),
        ({"fp16_full_eval": True, "torch_compile": True}, "fp16_full_eval: .*; torch_compile: .* compiled already"),
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


def test_without_effect(tmp_path: Path) -> None:
    given = {"ddp_bucket_cap_mb": 25, "ddp_find_unused_parameters": True, "torch_empty_cache_steps": 5}
    with pytest.warns(UserWarning, match="^ddp_find_unused_parameters, ddp_bucket_cap_mb, torch_empty_cache_steps: no effect"):
        check_arguments(arguments(tmp_path, **given))


def test_deepspeed(tmp_path: Path) -> None:
    """TrainingArguments themselves ask for the package and its launcher."""
    args = arguments(tmp_path)
    args.deepspeed = "something"
    with pytest.raises(StepError, match="deepspeed: .* choose how states are sharded by step_options"):
        check_arguments(args)


@pytest.mark.parametrize("config", [{}, {"transformer_layer_cls_to_wrap": ["Block"], "activation_checkpointing": True}])
def test_fsdp_is_replaced(tmp_path: Path, config: dict[str, Any]) -> None:
    # Transformers adds keys to the dict.
    given = arguments(tmp_path, fsdp="full_shard auto_wrap", fsdp_config={**config})
    with pytest.warns(UserWarning, match="^fsdp: FSDP is not used"):
        trainer = CompiledTrainer(Model(), given)
    assert trainer.args.activation_checkpointing == bool(config)
    assert not trainer.args.fsdp and given.fsdp and not given.activation_checkpointing
    with pytest.warns(UserWarning, match="^fsdp: FSDP is not used"):
        assert not CompiledTrainer(model=Model(), args=given).is_fsdp_enabled


@pytest.mark.parametrize("key", ["cpu_offload", "xla"])
def test_fsdp_settings_that_are_refused(tmp_path: Path, key: str) -> None:
    given = arguments(tmp_path, fsdp=True)
    given.fsdp_config[key] = True
    with pytest.raises(StepError, match=f"fsdp_config: .*{key}=True.*leave it out"):
        CompiledTrainer(Model(), given)


def test_arguments_without_fsdp_are_the_same_object(tmp_path: Path) -> None:
    given = arguments(tmp_path)
    assert without_fsdp(given) is given


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
        ({"step_options": {"more_inputs": []}}, "step_options.'more_inputs'.: .* give CompiledTrainer lengths="),
        ({"lengths": [8, 4]}, "lengths: expected numbers that grow"),
        ({"pad": {"x": 1}}, "pad: expected lengths="),
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


def test_a_batch_of_another_length_leads_to_lengths(tmp_path: Path) -> None:
    """After the step was compiled, too; before it is, test_trainer.py has one."""
    trainer = CompiledTrainer(Model(), arguments(tmp_path))
    trainer.step, trainer._shapes = types.SimpleNamespace(run=None), {"x": (4, 2), "labels": (4, 1)}
    trainer.create_optimizer()
    trainer.accelerator.gradient_state._set_sync_gradients(True)
    with pytest.raises(StepError, match=r"'x': expected the shape of the first batch, \[4, 2\], got \[4, 3\]; all .* lengths="):
        trainer.training_step(trainer.model, {"x": torch.ones(4, 3), "labels": torch.ones(4, 1)})


def test_the_last_rows_are_looked_at_before_an_export(tmp_path: Path) -> None:
    """The first batch of a long run may have the length of the second, and the export takes minutes."""
    rows = [{"x": torch.ones(2 if i < 8 else 3), "labels": torch.ones(1)} for i in range(12)]
    trainer = CompiledTrainer(Model(), arguments(tmp_path, per_device_train_batch_size=4), train_dataset=rows)
    trainer.create_optimizer()
    trainer.accelerator.gradient_state._set_sync_gradients(True)
    first = {"x": torch.ones(4, 2), "labels": torch.ones(4, 1)}

    def draw() -> tuple[float, float, float]:
        return random.random(), torch.rand(()).item(), np.random.random()

    def seed() -> None:
        random.seed(0)
        torch.manual_seed(0)
        np.random.seed(0)

    seed()
    expected = draw()
    seed()
    with pytest.raises(StepError, match=r"'x': expected the shape of the first batch, \[4, 2\], got \[4, 3\]; all .* lengths="):
        trainer.training_step(trainer.model, first)
    assert draw() == expected


class Slices(torch.utils.data.Dataset):
    """Rows that are slices of one tensor, so that a negative index is no row. The last row is too short."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        assert i >= 0
        return {"x": torch.ones(11)[2 * i : 2 * i + 2]}


def test_last_rows_that_make_no_batch_are_left_to_the_run(tmp_path: Path) -> None:
    args = arguments(tmp_path, per_device_train_batch_size=2, remove_unused_columns=False)
    assert CompiledTrainer(Model(), args, train_dataset=Slices())._last_batch() == []
    whole = torch.utils.data.Subset(Slices(), range(5))
    (batch,) = CompiledTrainer(Model(), args, train_dataset=whole)._last_batch()
    assert batch["x"].shape == (2, 2)


def test_evaluates_and_predicts_without_a_step(tmp_path: Path) -> None:
    """Nothing was trained, and no step is needed for a model that runs in plain PyTorch."""
    rows = [{"x": torch.ones(2) * i, "labels": torch.ones(1)} for i in range(5)]
    args = arguments(tmp_path, per_device_eval_batch_size=2, disable_tqdm=True)
    trainer = CompiledTrainer(Model(), args)
    losses = [((trainer.model.layer(row["x"]) - 1) ** 2).item() for row in rows]
    with pytest.warns(UserWarning, match="evaluate: the step has no evaluation, so this runs in plain PyTorch"):
        found = trainer.evaluate(rows)
    assert found["eval_loss"] == pytest.approx(sum(losses) / 5)
    assert trainer.predict(rows).metrics["test_loss"] == found["eval_loss"]


class CompiledSeq2SeqTrainer(CompiledTrainer, Seq2SeqTrainer):
    """Predicts by generation."""


def test_generates(tmp_path: Path) -> None:
    """Arguments that only Seq2SeqTrainingArguments have are those of the model's own generation."""
    given = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "per_device_eval_batch_size": 2}
    args = Seq2SeqTrainingArguments(str(tmp_path), predict_with_generate=True, generation_max_length=5, **given)
    torch.manual_seed(0)
    config = T5Config(vocab_size=17, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, decoder_start_token_id=0)
    model = T5ForConditionalGeneration(config)
    rows = [{"input_ids": torch.arange(4) + i, "labels": torch.arange(3)} for i in range(3)]
    found, expected = (kind(model, args).predict(rows) for kind in (CompiledSeq2SeqTrainer, Seq2SeqTrainer))
    assert found.predictions.shape[0] == 3 and (found.predictions == expected.predictions).all()
    assert found.metrics["test_loss"] == expected.metrics["test_loss"]


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
