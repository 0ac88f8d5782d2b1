# SPDX-License-Identifier: Apache-2.0
"""A model that is trained in evaluation mode is warned of: dropout does not run then, and batch norm has other
statistics."""

import re
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

import fcdp
from fcdp.modes import in_mode, warn_of_evaluation_mode
from small_models import BatchNorm


class Attention(nn.Module):
    """Its dropout is a number, as in Transformers."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.attention_dropout = dropout
        self.q = nn.Linear(4, 4)


def frozen(module: nn.Module) -> nn.Module:
    return module.requires_grad_(False).eval()


def said_of(model: nn.Module) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_evaluation_mode(model)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1)), r"dropout \(0.1\) of '1' is off\."),
        (nn.Sequential(nn.Linear(4, 4), nn.RReLU()), "the random slope of '1' is off"),
        (nn.Sequential(nn.Linear(4, 4), nn.Dropout1d(0.3), nn.AlphaDropout(0.2)), r"dropout \(0.3\) of '1' is off, and 1 more"),
        (nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), "'1' normalizes by its running statistics"),
        (nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, affine=False)), "'1' normalizes by its running statistics"),
        (nn.Sequential(Attention(0.1)), r"attention_dropout \(0.1\) of '0' is off"),
        (nn.LSTM(4, 4, num_layers=2, dropout=0.5), r"dropout \(0.5\) is off"),
        (nn.Sequential(nn.TransformerEncoderLayer(8, 2, 8, dropout=0.1)), "of '0.self_attn' is off, and"),
    ],
)
def test_warns(model: nn.Module, expected: str) -> None:
    assert said_of(model.train()) == []
    (message,) = said_of(model.eval())
    assert re.search(expected, message), message
    assert "model.train()" in message


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0), Attention(0.0), nn.BatchNorm1d(4, track_running_stats=False)).eval(),
        # A backbone that is frozen is meant to be in evaluation mode.
        nn.Sequential(frozen(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))), nn.Linear(4, 4)),
        nn.Sequential(nn.Linear(4, 4), frozen(nn.BatchNorm1d(4))),
    ],
)
def test_says_nothing(model: nn.Module) -> None:
    assert said_of(model) == []


def test_export_warns_of_a_step_alone(tmp_path: Path) -> None:
    model = BatchNorm().eval()
    with pytest.warns(UserWarning, match="'norm' normalizes by its running statistics"):
        fcdp.export(model, (torch.randn(4, 4),), tmp_path / "step.pt2")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        fcdp.export(model, (torch.randn(4, 4),), tmp_path / "evaluation.pt2", train=False)


def test_each_module_has_its_own_mode_again() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Dropout(0.5))).eval()
    model[1].training = True
    with in_mode(model, training=True):
        assert all(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == [False, False, True, False]
