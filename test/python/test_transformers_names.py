# SPDX-License-Identifier: Apache-2.0
"""Folders of save_pretrained become the tensors of the model, and come back, for each family that was tried."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from fcdp.checkpoint import transformers_names
from fcdp.checkpoint.formats import open_complete
from fcdp.checkpoint.state import State

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks" / "models"))
from families import FAMILIES  # noqa: E402

# The families whose stored tensors are not those of the model.
CHANGED = {"gpt_neox", "mixtral", "qwen2_moe", "qwen3_moe", "qwen3_next", "olmoe", "vit", "dinov2"}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def convert(ckpt: Callable[..., Any]) -> Callable[..., str]:
    """Runs fcdp-ckpt convert; returns the error, or nothing."""

    def run(*arguments: object) -> str:
        done = ckpt("convert", *arguments)
        assert done.code in (0, 2)
        return done.error if done.code else ""

    return run


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def save(model: nn.Module, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_comes_back(name: str, tmp_path: Path, convert: Callable[..., str]) -> None:
    model = FAMILIES[name].build(name)
    stored = save(model, tmp_path / "stored")
    assert not convert(stored, tmp_path / "made", "--to=hf", "--transformers=to-model")
    made, expected = weights_of(tmp_path / "made"), model.state_dict()
    assert (weights_of(stored).keys() != made.keys()) == (name in CHANGED)
    # Missing parameters are tied to another name.
    kept = {value.data_ptr() for key, value in expected.items() if key in made}
    assert all(key in made or value.data_ptr() in kept for key, value in expected.items())
    assert made.keys() <= expected.keys()
    assert all(torch.equal(value, expected[key]) for key, value in made.items())

    trained = {key: value + 1 if value.is_floating_point() else value for key, value in made.items()}
    save_file(trained, tmp_path / "trained.safetensors")
    config = f"--config={stored / 'config.json'}"
    back = tmp_path / "back"
    assert not convert(tmp_path / "trained.safetensors", back, "--to=hf", "--transformers=from-model", config)
    assert weights_of(back).keys() == weights_of(stored).keys()
    found = type(model).from_pretrained(back).state_dict()
    assert all(torch.equal(found[key], value) for key, value in trained.items())


def test_the_changed_families_are_those_of_the_page() -> None:
    page = " ".join((Path(__file__).resolve().parents[2] / "docs" / "weights.md").read_text().split())
    listed = page.partition("are GPT-NeoX")[2].partition(". The step")[0]
    assert listed.count(",") + listed.count(" and ") + 1 == len(CHANGED)


def mixtral(folder: Path) -> tuple[nn.Module, Path]:
    model = FAMILIES["mixtral"].build("mixtral")
    return model, save(model, folder)


def test_a_group_is_made_when_it_is_read(tmp_path: Path) -> None:
    model, folder = mixtral(tmp_path / "stored")
    source = open_complete(folder)
    read: list[str] = []

    def counted(state: State) -> State:
        def reader(offset: int, length: int) -> torch.Tensor:
            read.append(state.name)
            return state.read(offset, length)

        return replace(state, read=reader)

    source.states = [counted(state) for state in source.states]
    plan = transformers_names.plan_to_model(model, [state.name for state in source.states])
    made = {state.name: state for state in transformers_names.apply(plan, source).states}
    assert not read
    experts = "model.layers.1.mlp.experts."
    for name in ("gate_up_proj", "down_proj"):
        whole = torch.cat(list(made[experts + name].chunks(step=100)))
        assert torch.equal(whole, model.state_dict()[experts + name].reshape(-1))
    # Each of its tensors was read once, and no other.
    assert len(read) == len(set(read)) == 3 * 4
    assert all(".layers.1." in name and ".experts." in name for name in read)


def test_names_that_begin_otherwise_need_no_conversion(tmp_path: Path) -> None:
    model = FAMILIES["llama"].build("llama")
    stored = {"whole": save(model, tmp_path / "whole"), "base": save(model.model, tmp_path / "base")}
    for read in (model, model.model):
        for folder in stored.values():
            assert not transformers_names.plan_to_model(read, list(weights_of(folder))).is_needed
    mixture, folder = mixtral(tmp_path / "mixture")
    assert transformers_names.plan_to_model(mixture, list(weights_of(folder))).is_needed


def test_a_model_inside_of_another_module(tmp_path: Path, convert: Callable[..., str]) -> None:
    model, folder = mixtral(tmp_path / "stored")
    step = tmp_path / "step.safetensors"
    save_file({f"net.{name}": value for name, value in model.state_dict().items()}, step)
    to = (tmp_path / "back", "--to=hf", "--transformers=from-model", f"--config={folder / 'config.json'}")
    error = convert(step, *to)
    assert f"{step}: expected the names of MixtralForCausalLM, found 'net." in error and "--strip-prefix" in error
    assert not (tmp_path / "back").exists()
    assert not convert(step, *to, "--strip-prefix=net.")
    stored, back = weights_of(folder), weights_of(tmp_path / "back")
    assert stored.keys() == back.keys() and all(torch.equal(back[name], value) for name, value in stored.items())


def test_what_cannot_be_converted_is_named(tmp_path: Path, convert: Callable[..., str]) -> None:
    _, folder = mixtral(tmp_path / "stored")
    config = folder / "config.json"
    text = config.read_text()
    to = (tmp_path / "out", "--to=hf", "--transformers=to-model")
    config.write_text(text.replace("MixtralForCausalLM", "TheirModel"))
    assert "expected a model of Transformers in \"architectures\", found 'TheirModel'" in convert(folder, *to)
    config.unlink()
    assert f"{config}: expected the config.json of a model of Transformers, found none" in convert(folder, *to)
    other = convert(folder, tmp_path / "out", "--to=dcp", "--transformers=to-model")
    assert "--transformers needs --to=hf or --to=safetensors" in other
    assert not (tmp_path / "out").exists()
