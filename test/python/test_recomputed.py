# SPDX-License-Identifier: Apache-2.0
"""Buffers that eager PyTorch changes twice, because torch.utils.checkpoint runs their module again, are refused by
name."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import fcdp
from fcdp.call import make_call
from fcdp.exporter import export_without_values


class Average(nn.Module):
    """Follows the mean of what it is given."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            if self.how == "in place":
                self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
            elif self.how == "assigned":
                self.mean = self.mean * 0.9 + x.mean(0) * 0.1
            else:
                self.mean[0] = x.mean()
        return x * 2


class Functional(nn.Module):
    """Counts no batches."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("variance", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, self.mean, self.variance, training=True)


class Checkpointed(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.layer, self.inner, self.is_checkpointed = nn.Linear(4, 3), inner, True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def run(x: torch.Tensor) -> torch.Tensor:
            return self.inner(self.layer(x)).sin()

        return (checkpoint(run, x, use_reentrant=False) if self.is_checkpointed else run(x)).square().mean()


class Headed(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body, self.scale = body, nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * self.body(x)


def by_the_loop(model: nn.Module, example: tuple[torch.Tensor, ...], path: Path) -> None:
    export_without_values(model, make_call(model, example, None), path)


CASES = [
    (lambda: nn.BatchNorm1d(3), "running_mean' and 2 more"),
    (Functional, "mean' and 1 more"),
    (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)), "parametrizations.weight.0._u' and 1 more"),
    *((lambda how=how: Average(how), "mean'") for how in ("in place", "assigned", "row")),
]


@pytest.mark.parametrize("is_empty", [False, True])
@pytest.mark.parametrize("export", [fcdp.export, by_the_loop])
@pytest.mark.parametrize(("make", "name"), CASES)
def test_a_buffer_that_is_changed_twice(tmp_path: Path, make, name: str, export, is_empty: bool) -> None:
    with fcdp.empty_weights() if is_empty else torch.enable_grad():
        model = Checkpointed(make())
    with pytest.raises(fcdp.ExportError, match=f"the backward pass changes the buffer 'inner.{name}.*leave the module out"):
        export(model, (torch.randn(5, 4),), tmp_path / "step.pt2")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_empty", [False, True])
def test_buffers_that_are_changed_once(tmp_path: Path, is_empty: bool) -> None:
    """In eval mode, outside of a checkpoint, or where nothing is computed again since nothing there is trained."""
    example = (torch.randn(5, 4),)
    with fcdp.empty_weights() if is_empty else torch.enable_grad():
        model = Checkpointed(nn.BatchNorm1d(3))
        frozen = Headed(Checkpointed(nn.BatchNorm1d(3)).requires_grad_(False))
    fcdp.export(model.eval(), example, tmp_path / "eval.pt2")
    model.train().is_checkpointed = False
    fcdp.export(model, example, tmp_path / "step.pt2")
    fcdp.export(frozen, example, tmp_path / "frozen.pt2")
