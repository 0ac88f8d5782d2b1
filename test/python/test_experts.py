# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts of Transformers are exported as they come: with PyTorch's grouped product, in all types."""

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

import archive
import fcdp
import transformers
from fcdp.experts import grouped_products_of_all_types, product_without_values

SHAPES = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_experts_per_tok": 2,
}
# A latent attention, and experts of which each token has some.
LATENT = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8, "n_group": 2, "topk_group": 1}
FAMILIES = {
    "Mixtral": {"num_local_experts": 4, "output_router_logits": True},
    "Qwen3Moe": {"num_experts": 4, "moe_intermediate_size": 16, "head_dim": 8, "output_router_logits": True},
    "DeepseekV3": {"n_routed_experts": 4, "n_shared_experts": 1, "moe_intermediate_size": 16, "first_k_dense_replace": 0, **LATENT},
    "GptOss": {"num_local_experts": 4, "head_dim": 8},
}


def make(family: str) -> nn.Module:
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**SHAPES, **FAMILIES[family])
    return getattr(transformers, f"{family}ForCausalLM")(config).train()


def inputs() -> dict[str, torch.Tensor]:
    # Three tokens choose six of the experts' places, and some expert may have none.
    ids = torch.randint(32, (1, 3))
    return {"input_ids": ids, "labels": ids}


def products(path: Path) -> list[str]:
    targets = [node["target"] for node in archive.program(path)["graph"]["nodes"]]
    assert not [target for target in targets if "transformers" in target]
    return [target for target in targets if "_grouped_mm" in target]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", FAMILIES)
def test_losses_and_gradients_have_the_bits_of_eager_pytorch(tmp_path: Path, family: str, dtype: torch.dtype) -> None:
    exported = fcdp.export(make(family).to(dtype), inputs(), tmp_path / "step.pt2")
    assert exported.gradient_error == 0
    # Two matrices: forward, and the gradients of rows and weights.
    assert len(products(tmp_path / "step.pt2")) == 6


def test_float16(tmp_path: Path) -> None:
    assert fcdp.export(make("Mixtral").half(), inputs(), tmp_path / "step.pt2").gradient_error == 0


def test_experts_without_gradients(tmp_path: Path) -> None:
    model = make("Mixtral")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("experts" not in name)
    assert fcdp.export(model, inputs(), tmp_path / "step.pt2").gradient_error == 0
    assert len(products(tmp_path / "step.pt2")) == 4
    fcdp.export(model.eval(), inputs(), tmp_path / "loss.pt2", train=False)
    assert len(products(tmp_path / "loss.pt2")) == 2


def test_a_model_without_values(tmp_path: Path) -> None:
    given = inputs()
    fcdp.export(make("GptOss"), given, tmp_path / "step.pt2")
    with fcdp.empty_weights():
        model = make("GptOss")
    exported = fcdp.export(model, given, tmp_path / "empty.pt2")
    assert not exported.unchecked_units
    assert products(tmp_path / "empty.pt2") == products(tmp_path / "step.pt2")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("columns", [8, 10])
def test_strides_are_the_operators(dtype: torch.dtype, columns: int) -> None:
    """Rows of results are aligned, also for gradients of rows and of weights."""
    rows, ends = torch.randn(5, 16, dtype=dtype), torch.tensor([2, 2, 5], dtype=torch.int32)
    weight = torch.randn(3, 16, 16, dtype=dtype)[..., :columns]
    gradient = torch.randn(5, 16, dtype=dtype)[:, :columns]
    cases = [(rows, weight), (gradient, weight.transpose(-2, -1)), (rows.transpose(-2, -1), gradient)]
    if columns % 8:
        # The operator has no products along an inner dimension that is not aligned.
        cases = [cases[0], cases[2]]
    for left, right in cases:
        made, expected = product_without_values(left, right, ends), torch._grouped_mm(left, right, ends)
        assert (made.shape, made.stride(), made.dtype) == (expected.shape, expected.stride(), expected.dtype)
    with grouped_products_of_all_types():
        assert torch._grouped_mm(rows.to("meta"), weight.to("meta"), ends.to("meta")).shape == (5, columns)


def test_ends_of_another_type(tmp_path: Path) -> None:
    """Transformers' operator also takes ends of groups in int64."""

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(2, 8, 4))

        def forward(self, rows: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
            return torch.ops.transformers.grouped_mm_fallback(rows, self.weight, ends).square().mean()

    model = Experts()
    exported = fcdp.export(copy.deepcopy(model), (torch.randn(5, 8), torch.tensor([2, 5])), tmp_path / "step.pt2")
    assert exported.gradient_error is not None and exported.gradient_error < 1e-6
    assert len(products(tmp_path / "step.pt2")) == 2
