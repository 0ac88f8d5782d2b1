# SPDX-License-Identifier: Apache-2.0
"""Models of Transformers as they come keep keys and values for generation; a step does not."""

from pathlib import Path

import pytest
import torch
from torch import nn

import fcdp
from fcdp.caches import without_caches

transformers = pytest.importorskip("transformers")

SIZES = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 32,
}
FAMILIES = ("Qwen3", "Gemma2")


def make(family: str) -> nn.Module:
    config = getattr(transformers, f"{family}Config")(**SIZES, head_dim=8)
    assert config.use_cache
    return getattr(transformers, f"{family}ForCausalLM")(config)


def batch() -> dict[str, torch.Tensor]:
    rows = torch.arange(16).reshape(2, 8)
    return {"input_ids": rows, "labels": rows}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_without_weights_is_compared_whole(tmp_path: Path, family: str) -> None:
    """A cache among the arguments of a layer would keep it from being exported by itself."""
    with fcdp.empty_weights():
        model = make(family).train()
    exported = fcdp.export(model, batch(), tmp_path / "step.pt2")
    assert exported.checked_units and not exported.unchecked_units
    assert model.config.use_cache


def test_the_loss_is_that_of_the_model(tmp_path: Path) -> None:
    model = make("Qwen3").train()
    loss = model(**batch()).loss
    exported = fcdp.export(model, batch(), tmp_path / "step.pt2")
    assert exported.gradient_error is not None and exported.gradient_error < 1e-6
    torch.testing.assert_close(model(**batch()).loss, loss)
    assert model(**batch()).past_key_values is not None


class Held(nn.Module):
    """A module with a configuration of its own, or one that it shares, or another thing of that name."""

    def __init__(self, config: object) -> None:
        super().__init__()
        self.config = config


class Config:
    def __init__(self, use_cache: object) -> None:
        self.use_cache = use_cache


def test_configurations_are_as_before_afterwards() -> None:
    shared, off, other = Config(True), Config(False), Config("always")
    model = nn.Sequential(Held(shared), Held(shared), Held(off), Held(other), Held(None), Held("text"))
    with pytest.raises(ValueError), without_caches(model):
        assert (shared.use_cache, off.use_cache, other.use_cache) == (False, False, "always")
        raise ValueError
    assert (shared.use_cache, off.use_cache, other.use_cache) == (True, False, "always")
