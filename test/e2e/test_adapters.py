# SPDX-License-Identifier: Apache-2.0
"""Adapters of PEFT are read whole, whatever the order of files, and written as PEFT stores them."""

import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM

import fcdp
from harness import BIN, ToolError, parameters, tool

SMALL = {
    "vocab_size": 61, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "use_cache": False,
}  # fmt: skip
# What is written after a step is what was read.
STILL = "sgd,lr=1e-30"


def example() -> dict[str, torch.Tensor]:
    ids = torch.arange(16).reshape(2, 8)
    return {"input_ids": ids, "labels": ids}


def randomize(model: nn.Module, seed: int) -> None:
    """Stands for a training."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.rand(parameter.shape, generator=generator))


def compile_step(model: nn.Module, folder: Path) -> Path:
    fcdp.export(model, example(), folder / "step.pt2", check=False)
    tool(BIN / "fcdp-compile", folder / "step.pt2", "--nodes=2", f"--optimizer={STILL}", "-o", folder / "step.so")
    np.save(folder / "ids.npy", np.broadcast_to(example()["input_ids"].numpy(), (2, 2, 8)))
    return folder / "step.so"


def run(step: Path, out: Path, *weights: Path | str, like: Path | str | None = None) -> str:
    ids = step.with_name("ids.npy")
    return tool(
        BIN / "fcdp-run", step, "--threads=1", f"--params-out={out}",
        f"--input=input_ids={ids}", f"--input=labels={ids}", *(f"--weights={path}" for path in weights), *([f"--params-like={like}"] if like else []),
    )  # fmt: skip


def assert_read(found: Path, model: nn.Module) -> None:
    values = parameters(found)
    for name, expected in model.named_parameters():
        assert torch.equal(values[name], expected), name


def assert_same_file(one: Path, other: Path) -> None:
    first, second = load_file(one), load_file(other)
    assert first.keys() == second.keys()
    assert all(torch.equal(value, second[name]) for name, value in first.items())


def test_saved_modules_magnitudes_and_ties(tmp_path: Path) -> None:
    def base() -> nn.Module:
        torch.manual_seed(0)
        return LlamaForCausalLM(LlamaConfig(**SMALL, tie_word_embeddings=True))

    tied = {"modules_to_save": ["embed_tokens"], "ensure_weight_tying": True}
    model = get_peft_model(base(), LoraConfig(r=2, target_modules=["q_proj"], use_dora=True, **tied))
    step = compile_step(model, tmp_path)
    randomize(model, seed=1)
    base().save_pretrained(tmp_path / "base")
    model.save_pretrained(tmp_path / "adapter")
    sources = [tmp_path / "base", tmp_path / "adapter", tmp_path / "step.pt2"]
    for order in (sources[:2], sources[1::-1], sources, sources[::-1]):
        run(step, tmp_path / "read.safetensors", *order)
        assert_read(tmp_path / "read.safetensors", model)

    trained = tmp_path / "trained"
    trained.mkdir()
    shutil.copy(tmp_path / "adapter" / "adapter_config.json", trained)
    written = trained / "adapter_model.safetensors"
    run(step, written, *sources[:2], like=tmp_path / "adapter")
    assert_same_file(written, tmp_path / "adapter" / "adapter_model.safetensors")
    assert_read(tmp_path / "read.safetensors", PeftModel.from_pretrained(base(), trained))
    run(step, tmp_path / "again.safetensors", tmp_path / "base", trained)
    assert_read(tmp_path / "again.safetensors", model)

    # Files that disagree, and an adapter that is not the step's.
    changed = load_file(written)
    assert len([name for name in changed if name.endswith(("embed_tokens.weight", "lm_head.weight"))]) == 2
    save_file({**changed, "base_model.model.lm_head.weight": torch.zeros(61, 16)}, written)
    disagree = "embed_tokens.weight' and 'base_model.model.lm_head.weight' in .* different values"
    with pytest.raises(ToolError, match=disagree):
        run(step, tmp_path / "none", tmp_path / "base", trained)
    save_file({**changed, "base_model.model.model.norm.lora_A.weight": torch.zeros(2, 16)}, written)
    with pytest.raises(ToolError, match="the step has not: 'base_model.model.model.norm.lora_A.weight'"):
        run(step, tmp_path / "none", tmp_path / "base", trained)
    assert not (tmp_path / "none").exists()


def test_two_adapters_with_names_of_their_own(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = get_peft_model(LlamaForCausalLM(LlamaConfig(**SMALL)), LoraConfig(r=2, target_modules=["q_proj"]), "first")
    model.add_adapter("second", LoraConfig(r=2, target_modules=["q_proj", "v_proj"]))
    model.base_model.set_adapter(["first", "second"])
    step = compile_step(model, tmp_path)
    randomize(model, seed=1)
    model.save_pretrained(tmp_path / "out")
    archive, first, second = tmp_path / "step.pt2", tmp_path / "out" / "first", tmp_path / "out" / "second"
    run(step, tmp_path / "read.safetensors", second, archive, first)
    assert_read(tmp_path / "read.safetensors", model)
    # Folders of other names need the adapter's.
    moved = second.rename(tmp_path / "moved")
    run(step, tmp_path / "like.safetensors", f"second={moved}", archive, first, like=f"second={moved}")
    assert_same_file(tmp_path / "like.safetensors", moved / "adapter_model.safetensors")


def test_experts_of_a_folder_and_their_adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fcdp.compile converts the folder, and says what it took from where."""
    def base() -> nn.Module:
        torch.manual_seed(0)
        model = MixtralForCausalLM(MixtralConfig(**SMALL, num_local_experts=4))
        return model

    experts = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
    model = get_peft_model(base(), LoraConfig(r=2, target_modules=[], target_parameters=experts))
    randomize(model, seed=1)
    base().save_pretrained(tmp_path / "base")
    model.save_pretrained(tmp_path / "adapter")
    names = set(load_file(tmp_path / "adapter" / "adapter_model.safetensors"))
    assert {name.partition("experts.")[2] for name in names} == {
        "lora_A.weight", "lora_B.weight", "base_layer.lora_A.weight", "base_layer.lora_B.weight"
    }  # fmt: skip

    expected = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        step = fcdp.compile(
            model, example(), optimizer=STILL, check=False, cache=tmp_path / "cache", threads=1,
            weights=[tmp_path / "adapter", tmp_path / "base"],
        )  # fmt: skip
    with step:
        found = step.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    notes = [str(warning.message) for warning in warned if str(warning.message).startswith("weights: ")]
    assert all(any(f"in {tmp_path / name}" in note for note in notes) for name in ("base", "adapter"))
    assert not list((tmp_path / "cache").glob("weights-*"))


def test_a_tied_parameter_with_two_values(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return nn.functional.cross_entropy(self.head(self.embed(ids)), ids)

    both = {"embed.weight": torch.ones(5, 4), "head.weight": torch.full((5, 4), 2.0)}
    save_file(both, tmp_path / "both.safetensors")
    files = [tmp_path / f"{name}.safetensors" for name in both]
    for file, (name, value) in zip(files, both.items()):
        save_file({name: value}, file)
    common = {"optimizer": STILL, "cache": tmp_path / "cache", "check": False}
    for weights in ([tmp_path / "both.safetensors"], files, files[::-1]):
        with pytest.raises(fcdp.StepError, match="embed.weight.*different values"):
            fcdp.compile(Tied(), (torch.arange(4),), weights=weights, **common)
    step = fcdp.compile(Tied(), (torch.arange(4),), **common)
    with pytest.raises(fcdp.StepError, match="embed.weight and head.weight, which are one parameter"):
        step.load_state_dict(both)
