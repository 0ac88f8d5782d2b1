# SPDX-License-Identifier: Apache-2.0
"""torch.autograd.Functions keep their own backward passes in an export."""

import pytest
import torch
from small_models import Regression
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

import fcdp


class Scaled(Function):
    """Multiplies the gradient, as adversarial training does; its result is its input."""

    @staticmethod
    def forward(context, x, factor):
        context.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        return context.factor * gradient, None


class Same(Function):
    @staticmethod
    def forward(context, x):
        return x

    @staticmethod
    def backward(context, gradient):
        return 3 * gradient


class Rounded(Function):
    """A straight-through estimator."""

    @staticmethod
    def forward(x):
        return x.round()

    @staticmethod
    def setup_context(context, inputs, output):
        pass

    @staticmethod
    @once_differentiable
    def backward(context, gradient):
        return gradient


class Bounded(Function):
    """Two results, one without a gradient, and None beside them."""

    @staticmethod
    def forward(context, x, options, y=None):
        low, high = options["range"]
        mask = (x > low) & (x < high)
        context.save_for_backward(mask, x)
        context.mark_non_differentiable(mask)
        return x.clamp(low, high), mask, None

    @staticmethod
    def backward(context, gradient, *_):
        mask, x = context.saved_tensors
        return torch.where(mask, gradient, -x), None, None


class Outer(Function):
    """Calls another one."""

    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return Rounded.apply(x) * 2

    @staticmethod
    def backward(context, gradient):
        return Scaled.apply(gradient * context.saved_tensors[0], 5.0)


rounded = Rounded.apply  # as models bind it


def bounded(x):
    value, mask, none = Bounded.apply(x, {"range": (-0.5, 0.5)})
    assert none is None
    return value * (1 + mask)


def with_another_use(h):
    same = Same.apply(h)
    return same.sin() + h.cos() * same


def in_a_checkpoint(h):
    return checkpoint(lambda x: rounded(x.sin() * 4), h, use_reentrant=False)


USES = {
    "scaled": lambda h: Scaled.apply(h, -0.5).exp(),
    "same": with_another_use,
    "rounded": lambda h: rounded(h * 4).square(),
    "bounded": bounded,
    "outer": lambda h: Outer.apply(h).sin(),
    "twice": lambda h: Scaled.apply(Scaled.apply(h, 2.0).sin(), 3.0),
    "checkpoint": in_a_checkpoint,
}


class Model(Regression):
    def __init__(self, use):
        super().__init__()
        self.use = use

    def forward(self, x):
        return self.use(self.fc(x)).square().mean()


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_gradients_are_those_of_the_function(tmp_path, use):
    torch.manual_seed(0)
    # The check compares loss and gradients with those of eager PyTorch.
    exported = fcdp.export(Model(use), (torch.randn(5, 4),), tmp_path / "step.pt2")
    assert exported.gradient_error < 1e-6
    names = {node.target for node in torch.export.load(exported.path).graph.nodes if node.op == "call_function"}
    assert all(str(name).startswith("aten.") or "getitem" in str(name) for name in names), names


def test_operations_are_labelled_with_the_module_that_calls_it(tmp_path):
    class Layer(torch.nn.Module):
        def forward(self, x):
            return Outer.apply(x)

    model = torch.nn.Sequential(torch.nn.Linear(4, 3), Layer())
    exported = fcdp.export(model, (torch.randn(5, 4), torch.randn(5, 3)), tmp_path / "step.pt2", loss_fn=torch.nn.MSELoss())
    assert exported.labelled == exported.nodes
    nodes = torch.export.load(exported.path).graph.nodes
    (rounding,) = [node for node in nodes if "aten.round" in str(node.target)]
    label = rounding.meta["custom"]
    assert label["module"] == "1" and "test_functions.py" in label["source"] and not label["backward"]


def test_an_evaluation_has_the_forward_pass(tmp_path):
    exported = fcdp.export(Model(bounded), (torch.randn(5, 4),), tmp_path / "step.pt2", train=False)
    assert not any("where" in str(node.target) for node in torch.export.load(exported.path).graph.nodes)


def test_nothing_is_left_behind(tmp_path):
    fcdp.export(Model(rounded), (torch.randn(5, 4),), tmp_path / "step.pt2")
    x = torch.ones(3, requires_grad=True)
    Scaled.apply(x, 2.0).sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 2.0))
    assert "apply" not in vars(torch.autograd.function._SingleLevelFunction)
