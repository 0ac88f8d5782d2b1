# SPDX-License-Identifier: Apache-2.0
"""Tensors that a loss would train in plain PyTorch, though they are no parameters of the model, are refused by name."""

import functools
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fcdp
from fcdp.call import make_call
from fcdp.exporter import export_without_values


class Proxies(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proxies = nn.Parameter(torch.randn(3, 3))

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(output @ self.proxies, target)

    def other(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return self(output, target)


class Holder:
    """Has a module, and is none."""

    def __init__(self) -> None:
        self.criteria = {"main": [Proxies()]}

    def __call__(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return self.criteria["main"][0](output, target)


def scaled(output: torch.Tensor, target: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(output * temperature, target)


CRITERION = Proxies()


def closure():
    inner = Proxies()
    return lambda output, target: inner(output, target)


LOSSES = {
    "proxies": Proxies(),
    "inner.proxies": closure(),
    "CRITERION.proxies": lambda output, target: CRITERION(output, target),
    "temperature": functools.partial(scaled, temperature=torch.ones((), requires_grad=True)),
    "criteria.main.0.proxies": Holder(),
    "0.proxies": functools.partial(Proxies.forward, Proxies()),
}


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(5, 4), torch.randn(5, 3)


def exported_without_values(model, example, path, loss_fn=None):
    export_without_values(model, make_call(model, example, loss_fn), path)


WAYS = {"export": fcdp.export, "loop": exported_without_values}


@pytest.fixture(params=WAYS.values(), ids=WAYS.keys())
def export(request):
    return request.param


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("is_empty", [False, True])
def test_trained_parameters_of_a_loss(tmp_path: Path, export, name: str, is_empty: bool) -> None:
    with fcdp.empty_weights() if is_empty else torch.enable_grad():
        model = nn.Linear(4, 3)
    with pytest.raises(fcdp.ExportError, match=rf"loss_fn has trained parameters \('{name}' .*make it a part of the model"):
        export(model, inputs(), tmp_path / "step.pt2", LOSSES[name])
    assert list(tmp_path.iterdir()) == []


def test_a_bound_method_of_a_loss(tmp_path: Path, export) -> None:
    with pytest.raises(fcdp.ExportError, match="loss_fn has trained parameters"):
        export(nn.Linear(4, 3), inputs(), tmp_path / "step.pt2", Proxies().other)


def test_a_frozen_loss_and_one_of_the_model_are_exported(tmp_path: Path, export) -> None:
    export(nn.Linear(4, 3), inputs(), tmp_path / "frozen.pt2", Proxies().requires_grad_(False))
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3))
    export(model, inputs(), tmp_path / "own.pt2", lambda output, target: F.mse_loss(model[0](output @ torch.ones(3, 4)), target))


class Unregistered(nn.Module):
    """Trains, in plain PyTorch, what `named_parameters` does not list."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.first, self.how = nn.Linear(4, 3), how
        self.layers, self.scale = [nn.Linear(3, 3)], torch.ones(3, requires_grad=True)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        output = self.first(x)
        return F.mse_loss(self.layers[0](output) if self.how == "list" else output * self.scale, y)


@pytest.mark.parametrize(("how", "name"), [("list", "layers.0.weight"), ("tensor", "scale")])
def test_what_a_model_does_not_register(tmp_path: Path, export, how: str, name: str) -> None:
    with pytest.raises(fcdp.ExportError, match=f"depends on '{name}' .* no parameter of the model.*nn.ModuleList"):
        export(Unregistered(how), inputs(), tmp_path / "step.pt2")
