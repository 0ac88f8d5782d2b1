# SPDX-License-Identifier: Apache-2.0
"""The export of a model without weights is compared with eager PyTorch unit by unit, on random values."""

from pathlib import Path

import pytest
import torch
from small_models import Tiny, tiny_inputs
from torch import nn
from torch.export import experimental

import fcdp
from fcdp import exporter, scaled
from fcdp.call import make_call
from fcdp.exporter import check_with_values, export_without_values


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(3, 3, num_layers=2, dropout=0.5), nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(x)[0]).square().mean()


class Suspicious(nn.Module):
    """Computes something else beside its units while it is traced."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x).square().mean() * (1 if type(x) is torch.Tensor else 2)


def empty(kind: type[nn.Module], *args: object) -> nn.Module:
    with fcdp.empty_weights():
        return kind(*args)


def sequences() -> tuple[torch.Tensor]:
    return (torch.randn(2, 3, 3),)


def test_every_unit_is_compared_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traced = []
    trace = exporter._trace_with_values
    monkeypatch.setattr(exporter, "_trace_with_values", lambda *args: traced.append(args) or trace(*args))
    exported = fcdp.export(empty(Tiny, True), tiny_inputs(), tmp_path / "step.pt2")
    assert exported.checked_units == ("embed", "blocks.0", "blocks.1", "head", "")
    assert exported.unchecked_units == {} and exported.gradient_error is None
    # The two blocks are alike.
    assert len(traced) == 4


def test_dropout_that_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In both ways of export."""
    monkeypatch.setattr(exporter, "split_layers", lambda forward: None)
    model = empty(Dropping)
    message = "unit 'rnn', with random values in place of weights: the archive's"
    with pytest.raises(fcdp.ExportError, match=message):
        fcdp.export(model, sequences(), tmp_path / "step.pt2")
    assert list(tmp_path.iterdir()) == []
    call = make_call(model, sequences(), None)
    exported, program = export_without_values(model, call, tmp_path / "loop.pt2")
    with pytest.raises(fcdp.ExportError, match=message):
        check_with_values(program, exported, model, call)


def test_gradients_of_the_stock_exporter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "joint_program", experimental._export_forward_backward)
    with pytest.raises(fcdp.ExportError, match="unit 'blocks.0', .*: the archive's gradient"):
        fcdp.export(empty(Tiny), tiny_inputs(), tmp_path / "step.pt2")


def test_the_model_around_its_units(tmp_path: Path) -> None:
    with pytest.raises(fcdp.ExportError, match="the model around its units, .*: the archive's loss"):
        fcdp.export(empty(Suspicious), (torch.randn(2, 3),), tmp_path / "step.pt2")


def test_operators_that_only_the_whole_step_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole step is exported first."""
    split = exporter.split_layers
    programs = []
    monkeypatch.setattr(exporter, "split_layers", lambda forward: programs and split(forward) or programs.append(forward))
    exported = fcdp.export(empty(Dropping), sequences(), tmp_path / "step.pt2")
    assert exported.checked_units == ("head", "")
    assert "0 aten::native_dropout instead of 1" in exported.unchecked_units["rnn"]


def test_units_that_are_too_large_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaled, "MOST_OPERATIONS", 18 * 3 * 3)
    exported = fcdp.export(empty(Flattened), (torch.randn(3, 3),), tmp_path / "step.pt2")
    assert exported.checked_units == ("",)
    assert all("MiB and " in reason and "multiplications" in reason for reason in exported.unchecked_units.values())
    assert list(exported.unchecked_units) == ["first", "last"]


def test_a_check_of_fewer_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaled, "MOST_OPERATIONS", 18 * 2 * 6)
    assert fcdp.export(empty(Counted), (torch.randn(9, 3),), tmp_path / "step.pt2").checked_units == ("head", "")


class Flattened(nn.Module):
    """Takes no other number of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 2), nn.Linear(6, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x).flatten())


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x).square().mean()


class Given(nn.Module):
    """Calls a unit with another module, as DoRA does, whose parameters it uses."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.scaled = nn.Linear(6, 6), Scaled()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scaled(self.layer(x), self.layer).square().mean()


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x: torch.Tensor, layer: nn.Linear) -> torch.Tensor:
        return x * self.scale / layer.weight.norm(dim=1)


def test_a_unit_that_takes_a_module(tmp_path: Path) -> None:
    with fcdp.empty_weights():
        model = Given()
    exported = fcdp.export(model, (torch.randn(4, 6),), tmp_path / "step.pt2")
    assert "scaled" in exported.unchecked_units


class Keys:
    """As the cache of Transformers: each layer finds what it has put there, and puts more."""

    def __init__(self) -> None:
        self.of_layers: list[torch.Tensor] = []

    def update(self, layer: int, keys: torch.Tensor) -> torch.Tensor:
        if len(self.of_layers) > layer:
            keys = torch.cat((self.of_layers[layer], keys))
        self.of_layers[layer:] = [keys]
        return keys


class Layer(nn.Linear):
    def forward(self, x: torch.Tensor, number: int, cache: Keys) -> torch.Tensor:
        return super().forward(x) * cache.update(number, x).mean()


class WithCache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(6, 6), Layer(6, 6)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        cache = Keys()
        for number, layer in enumerate(self.layers):
            x = layer(x, number, cache)
        return x.square().mean()


def test_what_an_argument_holds_is_that_before_the_call(tmp_path: Path) -> None:
    with fcdp.empty_weights():
        model = WithCache()
    exported = fcdp.export(model, (torch.randn(4, 6),), tmp_path / "step.pt2")
    assert exported.unchecked_units == {} and {"layers.0", "layers.1"} <= set(exported.checked_units)


class Transposed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).transpose(0, 1)).square().mean()


def test_arguments_have_the_same_order_in_memory(tmp_path: Path) -> None:
    """PyTorch multiplies a transposed tensor by other operators."""
    with fcdp.empty_weights():
        model = Transposed()
    exported = fcdp.export(model, (torch.randn(4, 5, 6),), tmp_path / "step.pt2")
    assert exported.unchecked_units == {}


def test_a_check_can_be_left_out(tmp_path: Path) -> None:
    exported = fcdp.export(empty(Counted), (torch.randn(2, 3),), tmp_path / "step.pt2", check=False)
    assert exported.checked_units == () and exported.unchecked_units == {}
