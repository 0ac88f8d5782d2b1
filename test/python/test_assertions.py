# SPDX-License-Identifier: Apache-2.0
"""Vision and language models of Transformers, which assert that there are as many image tokens as features."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

import fcdp
from fcdp.assertions import without_assertions

IMAGE = 3
TEXT: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
}
VISION: dict[str, Any] = {
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 8,
    "patch_size": 4,
}


def pali_gemma() -> nn.Module:
    config = transformers.PaliGemmaConfig(
        text_config={"model_type": "gemma", **TEXT},
        vision_config={"model_type": "siglip_vision_model", "projection_dim": 8, **VISION},
        image_token_id=IMAGE,
        image_token_index=IMAGE,
        projection_dim=8,
    )
    return transformers.PaliGemmaForConditionalGeneration(config)


def llava() -> nn.Module:
    config = transformers.LlavaConfig(
        text_config={"model_type": "llama", **TEXT},
        vision_config={"model_type": "clip_vision_model", **VISION},
        image_token_id=IMAGE,
        image_seq_length=4,
        vision_feature_layer=-1,
    )
    return transformers.LlavaForConditionalGeneration(config)


def inputs(tokens: int, **more: Any) -> dict[str, Any]:
    """Rows with `tokens` tokens of an image, which has four features."""
    ids = torch.randint(4, 32, (2, 7))
    ids[:, 1 : 1 + tokens] = IMAGE
    images = torch.randn(2, 3, 8, 8)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids, "pixel_values": images, "use_cache": False} | more


@pytest.mark.parametrize(("make", "more"), [(llava, {}), (pali_gemma, {"token_type_ids": torch.ones(2, 7, dtype=torch.long)})])
def test_the_assertion_is_left_out_of_the_step(tmp_path: Path, make: Any, more: dict[str, Any]) -> None:
    exported = fcdp.export(make(), inputs(4, **more), tmp_path / "step.pt2")
    assert exported.gradient_error is not None
    with fcdp.empty_weights():
        empty = make()
    fcdp.export(empty, inputs(4, **more), tmp_path / "empty.pt2", check=False)


def test_eager_asserts_on_the_example_inputs(tmp_path: Path) -> None:
    with pytest.raises(fcdp.ExportError, match="Image features and image tokens do not match"):
        fcdp.export(llava(), inputs(3), tmp_path / "step.pt2")


class Sampled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mean, self.scale = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        posterior = torch.distributions.Normal(self.mean(x), self.scale(x).exp())
        prior = torch.distributions.Normal(torch.zeros(2), torch.ones(2))
        return posterior.rsample().square().mean() + torch.distributions.kl_divergence(posterior, prior).mean()


def test_distributions_check_no_values_in_a_step(tmp_path: Path) -> None:
    assert fcdp.export(Sampled(), (torch.randn(4, 3),), tmp_path / "step.pt2").gradient_error == 0
    with fcdp.empty_weights():
        model = Sampled()
    assert fcdp.export(model, (torch.randn(4, 3),), tmp_path / "empty.pt2").unchecked_units == {}


def test_distributions_check_again_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)
    with without_assertions():
        torch.distributions.Normal(0.0, torch.tensor(-1.0))
    with pytest.raises(ValueError, match="parameter scale"):
        torch.distributions.Normal(0.0, torch.tensor(-1.0))


@pytest.mark.parametrize("before", [None, "0"])
def test_the_environment_is_as_before(monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    name = "TRANSFORMERS_DISABLE_TORCH_CHECK"
    monkeypatch.delenv(name, raising=False)
    if before is not None:
        monkeypatch.setenv(name, before)
    with without_assertions():
        assert os.environ[name] == "1"
    assert os.environ.get(name) == before
