# SPDX-License-Identifier: Apache-2.0
"""fcdp.cast_parameters, and the warning about buffers that a cast of the whole model has rounded."""

import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

import fcdp


class Rotary(nn.Module):
    """Has a table, a mask, a count and a head that is tied."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(12, 8), nn.Linear(8, 12, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("table", 1.0 / 10000 ** (torch.arange(8) / 8), persistent=False)
        self.register_buffer("mask", torch.full((6, 6), float("-inf")).triu(1))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) * self.table.to(self.embed.weight.dtype) + self.mask.exp().sum().to(self.embed.weight.dtype)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1).float(), labels.flatten())


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(12, (2, 6)), torch.randint(12, (2, 6))


def said(model: nn.Module, path: Path, values: tuple[torch.Tensor, ...]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fcdp.export(model, values, path / "step.pt2")
    return [str(warning.message) for warning in caught if "buffer" in str(warning.message)]


def test_parameters_alone_are_cast(tmp_path: Path) -> None:
    model = Rotary()
    table, weight = model.table.clone(), model.embed.weight.detach().clone()
    frozen = nn.Sequential(model, nn.Linear(2, 2).requires_grad_(False))
    assert fcdp.cast_parameters(frozen, torch.bfloat16) is frozen
    assert {parameter.dtype for parameter in frozen.parameters()} == {torch.bfloat16}
    assert torch.equal(model.embed.weight, weight.to(torch.bfloat16)) and model.head.weight is model.embed.weight
    assert model.embed.weight.requires_grad and not frozen[1].weight.requires_grad
    assert model.table.dtype == model.mask.dtype == torch.float32 and torch.equal(model.table, table)
    assert said(model, tmp_path, inputs()) == []
    archived = torch.export.load(tmp_path / "step.pt2").constants["table"]
    assert archived.dtype == torch.float32 and torch.equal(archived, table)


def test_parameters_without_values() -> None:
    with fcdp.empty_weights():
        model = Rotary()
    fcdp.cast_parameters(model, torch.float16)
    assert model.embed.weight.dtype == torch.float16 and model.embed.weight.device.type == "meta"
    assert model.head.weight is model.embed.weight and model.table.dtype == torch.float32


def test_whole_numbers_are_refused() -> None:
    with pytest.raises(TypeError, match="expected a floating-point type such as torch.bfloat16, got torch.int64"):
        fcdp.cast_parameters(Rotary(), torch.int64)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_table_that_was_rounded(tmp_path: Path, dtype: torch.dtype) -> None:
    """The mask, of zeros and infinities, was not."""
    (message,) = said(Rotary().to(dtype), tmp_path, inputs())
    assert message.startswith("the buffer 'table' is in half precision, and rounded") and "fcdp.cast_parameters" in message


def test_running_statistics_in_half_precision(tmp_path: Path) -> None:
    """They are zeros and ones at first, and rounded in each step."""

    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.fc(x)).square().mean()

    x = torch.randn(4, 4, dtype=torch.bfloat16)
    (message,) = said(Normed().to(torch.bfloat16), tmp_path, (x,))
    assert message.startswith("the buffer 'norm.running_mean' and 1 more buffers are")
