# SPDX-License-Identifier: Apache-2.0
"""fcdp.export(autocast=...) has a step compute what PyTorch computes under torch.autocast."""

from pathlib import Path

import pytest
import torch
from torch import nn

import fcdp
from fcdp.call import make_call
from fcdp.check import replay
from small_models import Tiny, tiny_inputs


def loss_under_autocast(model: nn.Module) -> float:
    with torch.autocast("cpu", torch.bfloat16):
        return model(*tiny_inputs()).item()


def loss_of(path: Path, model: nn.Module) -> float:
    return replay(torch.export.load(path), make_call(model, tiny_inputs(), None)).loss.item()


def test_the_loss_is_that_under_autocast(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Tiny()
    exported = fcdp.export(model, tiny_inputs(), tmp_path / "half.pt2", autocast=torch.bfloat16)
    assert exported.gradient_error is not None and exported.gradient_error < 1e-2
    assert loss_of(exported.path, model) == loss_under_autocast(model)
    assert abs(loss_of(exported.path, model) - model(*tiny_inputs()).item()) > 1e-6
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_the_target_is_within(tmp_path: Path) -> None:
    """The loss function runs under autocast, too: its product has operands in bfloat16."""
    torch.manual_seed(0)
    model, inputs = nn.Linear(3, 2), (torch.randn(4, 3), torch.randn(4, 2))

    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (output @ target.T).float().mean()

    with torch.autocast("cpu", torch.bfloat16):
        expected = loss_fn(model(inputs[0]), inputs[1]).item()
    path = tmp_path / "step.pt2"
    fcdp.export(model, inputs, path, loss_fn=loss_fn, autocast=torch.bfloat16)
    assert replay(torch.export.load(path), make_call(model, inputs, loss_fn)).loss.item() == expected
    assert expected != loss_fn(model(inputs[0]).bfloat16().float(), inputs[1]).item()


def test_a_model_without_weights_is_compared(tmp_path: Path) -> None:
    with fcdp.empty_weights():
        model = Tiny()
    exported = fcdp.export(model, tiny_inputs(), tmp_path / "step.pt2", autocast=torch.bfloat16)
    assert set(exported.checked_units) >= {"blocks.0", "blocks.1", "head"}


def test_an_evaluation(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Tiny().eval()
    exported = fcdp.export(model, tiny_inputs(), tmp_path / "eval.pt2", train=False, autocast=torch.bfloat16)
    assert loss_of(exported.path, model) == loss_under_autocast(model)


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        (torch.float16, "^autocast: expected torch.bfloat16 or None, got torch.float16; .*--loss-scale=on"),
        (torch.float32, "^autocast: expected torch.bfloat16 or None, got torch.float32$"),
        (True, "^autocast: expected torch.bfloat16 or None, got True$"),
    ],
)
def test_other_types_are_refused(tmp_path: Path, dtype: object, message: str) -> None:
    with pytest.raises(fcdp.ExportError, match=message):
        fcdp.export(Tiny(), tiny_inputs(), tmp_path / "step.pt2", autocast=dtype)
    assert list(tmp_path.iterdir()) == []
