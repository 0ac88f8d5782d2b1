# SPDX-License-Identifier: Apache-2.0
import archive
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import fcdp
from fcdp import joint
from fcdp.strides import STRIDES_OF_ANOTHER_OPERAND, STRIDES_OF_IMAGES, STRIDES_OF_THEIR_OWN

CHANNEL = torch.rand(4)
NORM = (CHANNEL, CHANNEL, CHANNEL, CHANNEL.clone())
# How each is called with operands of shape [2, 4, 6, 6], one of which is not contiguous.
CALLS = {
    "_log_softmax_backward_data": lambda f, x, y: f(x, y, 1, torch.float32),
    "logit_backward": lambda f, x, y: f(x, y, 0.1),
    "mse_loss_backward": lambda f, x, y: f(x, y, y, 0),
    "native_dropout_backward": lambda f, x, y: f(x, y > 0.5, 2.0),
    "smooth_l1_loss_backward": lambda f, x, y: f(x, y, y, 0, 1.0),
    "hardtanh_backward": lambda f, x, y: f(x, y, 0, 1),
    "softplus_backward": lambda f, x, y: f(x, y, 1.0, 20.0),
    "_native_batch_norm_legit": lambda f, x, y: f(x, *NORM[:2], True, 0.1, 1e-5)[0],
    "_native_batch_norm_legit_functional": lambda f, x, y: f(x, *NORM, True, 0.1, 1e-5)[0],
    "native_batch_norm_backward": lambda f, x, y: f(x, y, CHANNEL, *NORM, True, 1e-5, [True, False, False])[0],
    "channel_shuffle": lambda f, x, y: f(x, 2),
    "copysign": lambda f, x, y: f(x, torch.tensor(-1.0)),
    "div": lambda f, x, y: f(x, y[0, 0], rounding_mode="floor"),
    "huber_loss_backward": lambda f, x, y: f(x, y, y, 0, 1.0),
    "log_sigmoid_forward": lambda f, x, y: f(x)[0],
    "max_unpool2d": lambda f, x, y: f(x, (y * 0).long() + torch.arange(36).view(6, 6), [6, 6]),
    "native_layer_norm_backward": lambda f, x, y: f(x, y, [6], y[..., :1], y[..., :1], None, None, [True, False, False])[0],
    "pow": lambda f, x, y: f(2.0, x),
    "replication_pad2d_backward": lambda f, x, y: f(x, y[..., 1:-1, 1:-1], [1, 1, 1, 1]),
}
ORDERS = ((0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0), (0, 2, 1, 3))
LISTED = STRIDES_OF_ANOTHER_OPERAND | STRIDES_OF_IMAGES | STRIDES_OF_THEIR_OWN


def ordered(order):
    """Returns a tensor of shape [2, 4, 6, 6] whose dimensions lie in memory in that order."""
    shape = [(2, 4, 6, 6)[dimension] for dimension in order]
    return torch.rand(shape).permute([order.index(dimension) for dimension in range(4)])


def is_wrong(operator, *operands):
    call = CALLS.get(operator.name().split("::")[1].split(".")[0], lambda f, x, y: f(x, y))
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        believed = call(operator, *map(mode.from_tensor, operands))
    return call(operator, *operands).stride() != believed.stride()


@pytest.mark.parametrize("operator", sorted(LISTED, key=str), ids=str)
def test_torch_is_still_wrong(operator):
    """An operator for which this fails with a new torch can leave the list."""
    assert any(is_wrong(operator, ordered(x), ordered(y)) for x in ORDERS for y in ORDERS)


@pytest.mark.parametrize("operator", sorted(LISTED, key=str), ids=str)
def test_where_nothing_is_copied_torch_is_right(operator):
    assert not is_wrong(operator, ordered(ORDERS[0]), ordered(ORDERS[0]))
    if operator in STRIDES_OF_ANOTHER_OPERAND:
        assert not any(is_wrong(operator, ordered(order), ordered(order)) for order in ORDERS)
    if operator in STRIDES_OF_IMAGES:
        assert not is_wrong(operator, ordered((0, 2, 3, 1)), ordered((0, 2, 3, 1)))


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


class Normed(nn.Module):
    """The gradients or the result of the norm lie in memory in another order than torch.export believes."""

    def __init__(self, norm):
        super().__init__()
        self.norm, self.before, self.after = norm, nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return self.after(self.norm(self.before(x).transpose(1, 2)).transpose(1, 2)).square().mean()


class LogSigmoid(nn.Module):
    def forward(self, x):
        return F.logsigmoid(x) + 2.0**x


NORMS = {
    "batch": lambda: nn.BatchNorm1d(8),
    "layer": lambda: nn.LayerNorm(5),
    "log sigmoid": LogSigmoid,
    "hard tanh": lambda: nn.Hardtanh(-0.1, 0.1),
}


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_results_of_another_order_are_copied_to_it(tmp_path, norm):
    exported = fcdp.export(Normed(norm()), (torch.randn(2, 5, 8),), tmp_path / "step.pt2")
    assert exported.gradient_error < 1e-5
