# SPDX-License-Identifier: Apache-2.0
import archive
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import fcdp
from fcdp import joint
from fcdp.strides import STRIDES_OF_ANOTHER_OPERAND

MORE_ARGUMENTS = {
    "_log_softmax_backward_data": lambda y: (y, 1, torch.float32),
    "logit_backward": lambda y: (y, 0.1),
    "mse_loss_backward": lambda y: (y, y, 0),
    "native_dropout_backward": lambda y: (y > 0.5, 2.0),
    "smooth_l1_loss_backward": lambda y: (y, y, 0, 1.0),
    "softplus_backward": lambda y: (y, 1.0, 20.0),
}


@pytest.mark.parametrize("operator", sorted(STRIDES_OF_ANOTHER_OPERAND, key=str), ids=str)
def test_torch_is_still_wrong(operator):
    """An operator for which this fails with a new torch can leave the list."""
    more = MORE_ARGUMENTS.get(operator.name().split("::")[1], lambda y: (y,))
    transposed, plain = torch.rand(2, 4, 16).transpose(1, 2), torch.rand(2, 16, 4)
    wrong = []
    for x, y in ((transposed, plain), (plain, transposed)):
        with FakeTensorMode() as mode:
            believed = operator(mode.from_tensor(x), *more(mode.from_tensor(y)))
        wrong.append(operator(x, *more(y)).stride() != believed.stride())
    assert any(wrong)


class Transposed(nn.Module):
    """The gradient of softplus's result lies in memory in another order than its operand."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 6)

    def forward(self, x, y):
        return (F.softplus(self.fc(x)).transpose(1, 2).contiguous() * y).square().mean()


def clones(path):
    return [node["target"] for node in archive.program(path)["graph"]["nodes"] if "aten.clone" in node["target"]]


def test_results_that_are_viewed_are_copied(tmp_path):
    exported = fcdp.export(Transposed(), (torch.randn(2, 5, 8), torch.randn(2, 6, 5)), tmp_path / "step.pt2")
    assert exported.gradient_error < 1e-6
    assert len(clones(tmp_path / "step.pt2")) == 2  # the model's own contiguous(), and this


def test_an_archive_that_cannot_run_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(joint, "have_believed_strides", lambda graph: None)
    with pytest.raises(fcdp.ExportError, match="the exported step fails where the model does not.*view size"):
        fcdp.export(Transposed(), (torch.randn(2, 5, 8), torch.randn(2, 6, 5)), tmp_path / "step.pt2")
    assert list(tmp_path.iterdir()) == []


def test_dont_copy_where_operands_lie_alike(tmp_path):
    class Plain(Transposed):
        def forward(self, x, y):
            return (F.softplus(self.fc(x)) * y).square().mean()

    fcdp.export(Plain(), (torch.randn(2, 5, 8), torch.randn(2, 5, 6)), tmp_path / "step.pt2")
    assert clones(tmp_path / "step.pt2") == []
