# SPDX-License-Identifier: Apache-2.0
"""Models that are exported without weights train from the files in which Hugging Face stores a model."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

import fcdp
from harness import ADAMW, BIN, Run, ToolError, assert_bit_equal, parameters, read_log, tool

BATCH = torch.zeros(2, 16, dtype=torch.int64)
INPUTS = ("--input=ids=random:1:128", "--input=labels=random:2:128")


class Step(nn.Module):
    """A Llama inside a module of the user's, which puts "net." in front of all names."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.net = LlamaForCausalLM(
            LlamaConfig(
                num_hidden_layers=2,
                hidden_size=64,
                intermediate_size=96,
                num_attention_heads=4,
                num_key_value_heads=2,
                vocab_size=128,
                tie_word_embeddings=tied,
            )
        )

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.net(input_ids=ids, labels=labels, use_cache=False).loss


def export(model: nn.Module, archive: Path) -> Path:
    has_values = all(parameter.device.type != "meta" for parameter in model.parameters())
    fcdp.export(model, (BATCH, BATCH.clone()), archive, check=has_values)
    return archive


def compile_step(archive: Path) -> Path:
    step = archive.with_suffix(".so")
    tool(BIN / "fcdp-compile", archive, "--nodes=2", "--ranks-per-node=2", f"--optimizer={ADAMW}", "-o", step)
    return step


def train(step: Path, out: Path, *weights: Path | str) -> tuple[Run, str]:
    """Returns what a job wrote and printed."""
    written = out.with_suffix(".safetensors")
    printed = run(step, out, weights, f"--params-out={written}")
    return Run(read_log(out.with_suffix(".jsonl")), written), printed


def run(step: Path, out: Path, weights: Sequence[Path | str], *options: str) -> str:
    sources = (f"--weights={path}" for path in weights)
    log = f"--json={out.with_suffix('.jsonl')}"
    return tool(BIN / "fcdp-run", step, "--steps=3", "--threads=1", log, *INPUTS, *sources, *options)


@pytest.mark.parametrize("tied", [False, True])
def test_weights_of_a_folder(tmp_path: Path, tied: bool) -> None:
    torch.manual_seed(0)
    model = Step(tied)
    full = export(model, tmp_path / "full.pt2")
    expected, printed = train(compile_step(full), tmp_path / "full", full)
    assert "weights:" not in printed

    model.net.save_pretrained(tmp_path / "model", max_shard_size="50KB")
    assert len(list((tmp_path / "model").glob("*.safetensors"))) > 2
    with fcdp.empty_weights():
        empty = Step(tied)
    step = compile_step(export(empty, tmp_path / "empty.pt2"))
    data = sum(parameter.nbytes for parameter in model.parameters())
    assert (tmp_path / "empty.pt2").stat().st_size < full.stat().st_size - data
    found, printed = train(step, tmp_path / "empty", tmp_path / "model")
    assert_bit_equal(found, expected)
    assert "weights: the step's 'net.model.embed_tokens.weight' is 'model.embed_tokens.weight' in" in printed

    # Transformers loads what is written like the model that was loaded.
    like = f"--params-like={tmp_path / 'model'}"
    run(step, tmp_path / "like", [tmp_path / "model"], f"--params-out={tmp_path / 'trained'}/", like)
    shutil.copy(tmp_path / "model" / "config.json", tmp_path / "trained")
    trained = dict(LlamaForCausalLM.from_pretrained(tmp_path / "trained").named_parameters())
    for name, value in parameters(expected.parameters).items():
        if name.startswith("net."):
            assert torch.equal(trained[name.removeprefix("net.")], value)

    # Otherwise it has the step's own names.
    again, printed = train(step, tmp_path / "again", found.parameters)
    assert "weights:" not in printed
    assert again.losses[0] != expected.losses[0]


def test_an_adapter_and_its_base_come_from_two_files(tmp_path: Path) -> None:
    from peft import LoraConfig, PeftModel, get_peft_model

    def build() -> nn.Module:
        step = Step(tied=False)
        step.net = get_peft_model(step.net, LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
        return step

    torch.manual_seed(0)
    model = build()
    full = export(model, tmp_path / "full.pt2")
    expected, _ = train(compile_step(full), tmp_path / "full", full)
    model.net.save_pretrained(tmp_path / "adapter")
    model.net.unload().save_pretrained(tmp_path / "base")
    with fcdp.empty_weights():
        step = compile_step(export(build(), tmp_path / "empty.pt2"))
    found, printed = train(step, tmp_path / "empty", tmp_path / "base", tmp_path / "adapter")
    assert_bit_equal(found, expected)
    assert "q_proj.lora_A.default.weight' is 'base_model." in printed

    # PEFT loads the adapter that was trained.
    out, like = tmp_path / "trained", f"--params-like={tmp_path / 'adapter'}"
    out.mkdir()
    written = f"--params-out={out / 'adapter_model.safetensors'}"
    run(step, tmp_path / "like", [tmp_path / "base", tmp_path / "adapter"], written, "--params=trained", like)
    shutil.copy(tmp_path / "adapter" / "adapter_config.json", out)
    base = LlamaForCausalLM.from_pretrained(tmp_path / "base")
    loaded = dict(PeftModel.from_pretrained(base, out).named_parameters())
    changed = {name: value for name, value in parameters(expected.parameters).items() if "lora" in name}
    assert len(changed) == 8
    for name, value in changed.items():
        assert torch.equal(loaded[name.removeprefix("net.")], value)


class Pair(nn.Module):
    """A student and its frozen teacher, of one architecture."""

    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = Step(tied=False).net, Step(tied=False).net.requires_grad_(False)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        wanted = self.teacher(input_ids=ids, use_cache=False).logits
        return nn.functional.mse_loss(self.student(input_ids=ids, labels=labels, use_cache=False).logits, wanted)


def test_two_models_of_one_architecture(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Pair()
    full = export(model, tmp_path / "full.pt2")
    expected, _ = train(compile_step(full), tmp_path / "full", full)
    student, teacher = (tmp_path / name for name in ("student", "teacher"))
    model.student.save_pretrained(student)
    model.teacher.save_pretrained(teacher)
    with fcdp.empty_weights():
        step = compile_step(export(Pair(), tmp_path / "empty.pt2"))
    files = f"teacher={teacher}", f"student={student}"
    found, printed = train(step, tmp_path / "empty", *files)
    assert_bit_equal(found, expected)
    assert "weights:" not in printed

    # One of the models is written under the names of its folder.
    trained = tmp_path / "trained.safetensors"
    run(step, tmp_path / "like", files, f"--params-out={trained}", f"--params-like=student={student}")
    for name, value in parameters(trained).items():
        assert torch.equal(value, parameters(expected.parameters)[f"student.{name}"])

    for wrong, problem in [
        ([student], "equally many names are found after 'student.', 'teacher.', so none is chosen: name the module"),
        ([f"student={student}"], "'teacher.model.embed_tokens.weight': expected a tensor of this name, got none"),
        ([*files, f"taecher={teacher}"], "or of a module with weights ('student', 'teacher'), got 'taecher'"),
        ([*files, f"student={teacher}"], "have different values, and both are 'student.model.embed_tokens.weight' of the step"),
    ]:
        with pytest.raises(ToolError, match=re.escape(problem)):
            run(step, tmp_path / "wrong", wrong)


def test_missing_and_unused_weights_are_listed(tmp_path: Path) -> None:
    model = Step(tied=False)
    with fcdp.empty_weights():
        step = compile_step(export(Step(tied=False), tmp_path / "empty.pt2"))
    del model.net.lm_head
    model.net.extra = nn.Linear(2, 2, bias=False)
    model.net.save_pretrained(tmp_path / "model")
    with pytest.raises(ToolError) as error:
        train(step, tmp_path / "out", tmp_path / "model")
    assert "'net.lm_head.weight': expected a tensor of this name, got none" in str(error.value)
    assert "model has 1 tensor that the step has not: 'extra.weight'" in str(error.value)
    assert str(error.value).count("error:") == 1


def test_meta_device(tmp_path: Path) -> None:
    with torch.device("meta"):
        model = Step(tied=True)
    archive = export(model, tmp_path / "meta.pt2")
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
    # The buffers have no values, so that it compiles but does not run.
    step = archive.with_suffix(".so")
    tool(BIN / "fcdp-compile", archive, "--nodes=2", "--ranks-per-node=2", "-o", step)
    with pytest.raises(ToolError, match=r"inv_freq' has no value: .* build the model under fcdp.empty_weights\(\)"):
        train(step, tmp_path / "out", archive)

