# SPDX-License-Identifier: Apache-2.0
import archive
import pytest
import torch
from small_models import Tiny, tiny_inputs
from torch import nn

import fcdp
from fcdp.call import make_call
from fcdp.exporter import export_without_values


def test_tied_parameter_has_both_names(tmp_path):
    path = tmp_path / "step.pt2"
    exported = fcdp.export(Tiny(tied=True), tiny_inputs(), path)
    assert exported.ties == archive.metadata(path)["ties"] == {"head.weight": "embed.weight"}
    assert {"embed.weight", "head.weight"} <= set(archive.gradients(path))
    weights = torch.export.load(path).state_dict
    assert torch.equal(weights["embed.weight"], weights["head.weight"])


def test_module_in_two_places(tmp_path):
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
            self.second = nn.Linear(4, 4)
            self.third = self.first

        def forward(self, x):
            return self.third(self.second(self.first(x))).square().mean()

    model = Shared()
    exported = fcdp.export(model, (torch.randn(3, 4),), tmp_path / "step.pt2")
    assert exported.ties == {"third.0.weight": "first.0.weight", "third.0.bias": "first.0.bias"}
    assert exported.gradient_error < 1e-6
    assert model.third is model.first


def test_root_is_the_first_name_that_the_loss_reaches(tmp_path):
    model = Tiny()
    model.embed.unused = model.head.weight
    path = tmp_path / "step.pt2"
    exported = fcdp.export(model, tiny_inputs(), path)
    assert exported.ties == {"embed.unused": "head.weight"}
    assert exported.unreached == []
    assert "head.weight" in archive.gradients(path)


def test_shared_memory_that_is_not_a_tie(tmp_path):
    model = Tiny()
    model.head.weight = nn.Parameter(model.embed.weight.detach())
    with pytest.raises(fcdp.ExportError, match="'embed.weight' and 'head.weight' share memory"):
        fcdp.export(model, tiny_inputs(), tmp_path / "step.pt2")
    assert list(tmp_path.iterdir()) == []


def test_a_buffer_inside_a_parameter(tmp_path):
    model = Tiny()
    model.register_buffer("tail", model.embed.weight.detach().view(-1)[2:])
    with pytest.raises(fcdp.ExportError, match="'embed.weight' and 'tail' share memory"):
        fcdp.export(model, tiny_inputs(), tmp_path / "step.pt2")


def test_loops_refuse_shared_memory_too(tmp_path):
    """They export without the values, which tell it."""
    model = Tiny()
    model.head.weight = nn.Parameter(model.embed.weight.detach())
    with pytest.raises(fcdp.ExportError, match="'embed.weight' and 'head.weight' share memory"):
        export_without_values(model, make_call(model, tiny_inputs(), None), tmp_path / "step.pt2")


def test_changed_buffer_with_two_names(tmp_path):
    class SharedNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1 = nn.BatchNorm1d(3)
            self.norm2 = self.norm1

        def forward(self, x):
            return self.norm2(self.norm1(x) + 1).pow(3).mean()

    with pytest.raises(fcdp.ExportError, match="hint: the step changes a buffer that has several names"):
        fcdp.export(SharedNorm(), (torch.randn(5, 3),), tmp_path / "step.pt2")
