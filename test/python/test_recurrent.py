# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN of several layers keep their dropout; packed sequences are refused with what to do."""

from pathlib import Path
from typing import Any

import archive
import pytest
import torch
from torch import nn

import fcdp
from fcdp.call import make_call
from fcdp.exporter import check_with_values, export_without_values


class Recurrent(nn.Module):
    """Its loss depends on the output and on the last states."""

    def __init__(self, kind: type[nn.RNNBase], layers: int, dropout: float = 0.4, **options: Any) -> None:
        super().__init__()
        self.rnn = kind(3, 4, num_layers=layers, dropout=dropout, **options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output, last = self.rnn(x)
        states = last if isinstance(last, tuple) else (last,)
        return output.square().mean() + sum(state.square().sum() for state in states)


CASES = [
    (nn.LSTM, 3, {"bidirectional": True, "batch_first": True, "proj_size": 2}),
    (nn.LSTM, 2, {"bias": False}),
    (nn.GRU, 2, {"bidirectional": True}),
    (nn.RNN, 2, {"batch_first": True, "nonlinearity": "relu"}),
    (nn.RNN, 2, {"dropout": 1.0}),
]


def draws(path: Path) -> int:
    return [node["target"] for node in archive.program(path)["graph"]["nodes"]].count("torch.ops.aten.native_dropout.default")


@pytest.mark.parametrize(("kind", "layers", "options"), CASES)
def test_dropout_between_layers_is_that_of_eager(tmp_path: Path, kind: type[nn.RNNBase], layers: int, options: Any) -> None:
    """The masks are the same, so that losses and gradients can be compared."""
    model, example = Recurrent(kind, layers, **options), (torch.randn(2, 3, 3),)
    assert fcdp.export(model, example, tmp_path / "step.pt2").gradient_error < 1e-5
    assert draws(tmp_path / "step.pt2") == layers - 1


def test_dropout_of_a_loop_and_of_a_model_without_weights(tmp_path: Path) -> None:
    model, example = Recurrent(nn.GRU, 2), (torch.randn(2, 3, 3),)
    call = make_call(model, example, None)
    exported, program = export_without_values(model, call, tmp_path / "loop.pt2")
    assert check_with_values(program, exported, model, call).error < 1e-5
    with fcdp.empty_weights():
        empty = Recurrent(nn.GRU, 2)
    fcdp.export(empty, example, tmp_path / "empty.pt2")
    assert [draws(tmp_path / name) for name in ("loop.pt2", "empty.pt2")] == [1, 1]


def test_no_dropout_where_there_is_none(tmp_path: Path) -> None:
    example = (torch.randn(2, 2, 3),)
    fcdp.export(Recurrent(nn.GRU, 2, dropout=0.0), example, tmp_path / "none.pt2")
    fcdp.export(Recurrent(nn.GRU, 2).eval(), example, tmp_path / "eval.pt2", train=False)
    assert [draws(tmp_path / name) for name in ("none.pt2", "eval.pt2")] == [0, 0]


class Packing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(3, 4, batch_first=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0].square().mean()


@pytest.mark.parametrize("is_empty", [False, True])
def test_packed_sequences(tmp_path: Path, is_empty: bool) -> None:
    with fcdp.empty_weights() if is_empty else torch.enable_grad():
        model = Packing()
    example = torch.randn(2, 3, 3), torch.tensor([2, 3])
    with pytest.raises(fcdp.ExportError, match="packs sequences .*: pad instead"):
        fcdp.export(model, example, tmp_path / "step.pt2")
    with pytest.raises(fcdp.ExportError, match="packs sequences .*: pad instead"):
        export_without_values(model, make_call(model, example, None), tmp_path / "step.pt2")
    assert list(tmp_path.iterdir()) == []
