# SPDX-License-Identifier: Apache-2.0
"""If a forward pass does what it may not do, the export names the place, and what to do instead."""

import re

import numpy as np
import pytest
import torch
import torch.distributed.nn.functional
from small_models import Regression

import fcdp
from fcdp import exporter


class Applied(torch.autograd.Function):
    """Its gradient is not that of its forward pass, and what it calls may have tensors of its own."""

    @staticmethod
    def forward(context, function, x):
        return function(x)

    @staticmethod
    def backward(context, gradient):
        return None, gradient


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(context, gradient):
        return gradient * 2


def model_of(forward):
    class Model(Regression):
        def forward(self, x, y):
            return forward(self.fc(x), x)

    return Model()


def padded(x):
    return torch.nested.nested_tensor([x[:1, :3], x[1:, :3]]).to_padded_tensor(0.0).flatten(0, 1)


SHAPE = r"the shape of the result of aten::{} \(.*test_refusals.py:\d+\) depends on values of a tensor.*torch.where"
NUMBER = r"aten::_local_scalar_dense \(.*test_refusals.py:\d+\) makes a number of Python of a tensor's value.*without .item\(\)"
BRANCH = r"'cond' \(.*test_refusals.py:\d+\), which chooses or repeats a part of it at run time: use torch.where"
NUMPY = "could not trace the training step: .*\nhint: forward leaves PyTorch for NumPy"
REFUSED = [
    (lambda h, x: h[x[:, 0] > 0].mean(), SHAPE.format("index")),
    (lambda h, x: h.flatten()[torch.nonzero(x[0])].sum(), SHAPE.format("nonzero")),
    (lambda h, x: h.mean() * x.sum().item(), NUMBER),
    (lambda h, x: h.mean() if x.sum() > 0 else h.sum(), "data-dependent.*\nhint: forward branches on the values of a tensor"),
    (lambda h, x: h.mean() if torch.equal(x, h) else h.sum(), r"test_refusals.py:\d+\nhint: forward needs the values of a tensor"),
    (lambda h, x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (h,)).mean(), BRANCH),
    (lambda h, x: torch.sparse.mm(torch.eye(5).to_sparse(), h).mean(), r"the result of aten::_to_sparse \(.*\) is sparse"),
    (lambda h, x: torch.from_numpy(np.sin(h.detach().numpy())).mean() + h.mean(), NUMPY),
    (lambda h, x: (h @ padded(x).T).mean(), "\nhint: torch.export traces"),
    (lambda h, x: (h / 0).mean(), "plain PyTorch's gradient of 'fc.weight' has a NaN or an infinity"),
    (lambda h, x: Applied.apply(torch.sin, h).mean(), "\nhint: the model has the torch.autograd.Function Applied: .* a module"),
    (lambda h, x: InPlace.apply(h * 1).mean(), "^the torch.autograd.Function InPlace changes its input in place"),
]


@pytest.mark.parametrize(("forward", "message"), REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_what_forward_may_not_do(tmp_path, forward, message):
    inputs = torch.randn(5, 4), torch.randn(5, 3)
    with pytest.raises(fcdp.ExportError) as error:
        fcdp.export(model_of(forward), inputs, tmp_path / "step.pt2")
    assert re.search(message, str(error.value)), error.value
    assert list(tmp_path.iterdir()) == []


WITHOUT_VALUES = [
    lambda h, x: h.mean() if x.sum() > 0 else h.sum(),
    lambda h, x: h.mean() * x.sum().item(),
    lambda h, x: h.mean() * float(h.detach().numpy().sum()),
    lambda h, x: h.mean() * torch.ones((), device="meta").item(),
]


@pytest.mark.parametrize("forward", WITHOUT_VALUES)
def test_a_model_without_values_is_not_said_to_fail_in_plain_pytorch(tmp_path, forward):
    with torch.device("meta"):
        model = model_of(forward)
    message = r"^forward needs the values of a tensor, .*test_refusals.py:\d+\): use torch.where"
    with pytest.raises(fcdp.ExportError, match=message):
        fcdp.export(model, (torch.randn(5, 4), torch.randn(5, 3)), tmp_path / "step.pt2")


def test_a_model_without_values_that_fails(tmp_path):
    with torch.device("meta"):
        model = model_of(lambda h, x: (h @ x).mean())
    message = r"in a pass with tensors that have no values, .*test_refusals.py:\d+: .*must match|in a pass with tensors that have no"
    with pytest.raises(fcdp.ExportError, match=message):
        fcdp.export(model, (torch.randn(5, 4), torch.randn(5, 3)), tmp_path / "step.pt2")


@pytest.fixture
def group():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def gathered(h, x):
    return torch.cat(torch.distributed.nn.functional.all_gather(h)).mean()


def test_a_gather_over_ranks_in_the_loss(tmp_path, group):
    message = r"the model communicates with other ranks \(c10d.allgather.* test_refusals.py:\d+\): give the loss of one rank's"
    with pytest.raises(fcdp.ExportError, match=message.replace(" test_refusals", ".*test_refusals")):
        fcdp.export(model_of(gathered), (torch.randn(5, 4), torch.randn(5, 3)), tmp_path / "step.pt2")


def test_a_gather_without_a_process_group(tmp_path):
    message = r"communicates with other ranks, .*test_refusals.py:\d+, and this process has no process group: give the loss of one"
    with pytest.raises(fcdp.ExportError, match=message):
        fcdp.export(model_of(gathered), (torch.randn(5, 4), torch.randn(5, 3)), tmp_path / "step.pt2")


def test_lines_of_torch_are_shown_on_demand(tmp_path, monkeypatch):
    model, inputs = model_of(lambda h, x: h.mean() if x.sum() > 0 else h.sum()), (torch.randn(5, 4), torch.randn(5, 3))
    for asked in ("", "1"):
        monkeypatch.setenv("FCDP_TORCH_MESSAGES", asked)
        with pytest.raises(fcdp.ExportError) as error:
            fcdp.export(model, inputs, tmp_path / "step.pt2")
        lines = str(error.value).splitlines()
        if asked:
            assert len(lines) > 10 and error.value.__cause__ is not None
        else:
            assert len(lines) == 3 and lines[2] == "FCDP_TORCH_MESSAGES=1 shows all that PyTorch says of it"
            assert error.value.__cause__ is None


def test_an_archive_that_cannot_be_written(tmp_path, monkeypatch):
    def full(program, path, *args, **kwargs):
        raise OSError(f"no space left for {path}")

    monkeypatch.setattr(exporter, "save_program", full)
    path = tmp_path / "step.pt2"
    with pytest.raises(fcdp.ExportError) as error:
        fcdp.export(model_of(lambda h, x: h.mean()), (torch.randn(5, 4), torch.randn(5, 3)), path)
    assert str(error.value) == f"torch.export.save could not write '{path}': no space left for {path}"


def test_an_input_that_forward_changes(tmp_path):
    class Model(Regression):
        def forward(self, x):
            return self.fc(x.add_(1)).mean()

    with pytest.raises(fcdp.ExportError, match="\nhint: forward changes an input in place"):
        fcdp.export(Model(), (torch.randn(5, 4),), tmp_path / "step.pt2")


@pytest.mark.parametrize("solve", [torch.linalg.inv, torch.linalg.cholesky, lambda a: torch.linalg.solve(a, torch.eye(3))])
def test_linear_algebra_that_checks_its_matrices(tmp_path, solve):
    model = model_of(lambda h, x: solve(h.T @ h + torch.eye(3)).square().sum())
    exported = fcdp.export(model, (torch.randn(5, 4), torch.randn(5, 3)), tmp_path / "step.pt2")
    assert exported.gradient_error < 1e-5


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (torch.ones(2, 3).to_sparse(), "of torch.sparse_coo"),
        (torch.nested.nested_tensor([torch.ones(3)]), "nested"),
        (torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.qint8), "quantized"),
    ],
)
def test_inputs_that_are_not_dense(tmp_path, value, kind):
    with pytest.raises(fcdp.ExportError, match=f"example input 'x': expected a dense tensor .*, got one that is {kind}"):
        fcdp.export(Regression(), {"x": value, "y": torch.ones(2)}, tmp_path / "step.pt2")


def test_a_model_without_values_fails(tmp_path, capfd):
    """PyTorch logs the traces of such errors, which the message of the export has anyway."""
    with fcdp.empty_weights():
        model = model_of(lambda h, x: h.topk(1000).values.mean())
    message = r"^the model fails on the example inputs in a pass with tensors that have no values, .*test_refusals.py:\d+"
    with pytest.raises(fcdp.ExportError, match=message) as error:
        fcdp.export(model, (torch.randn(5, 4), torch.randn(5, 3)), tmp_path / "step.pt2")
    assert "plain PyTorch" not in str(error.value)
    assert capfd.readouterr().err == ""


def test_a_model_with_values_fails(tmp_path):
    model = model_of(lambda h, x: h.topk(1000).values.mean())
    with pytest.raises(fcdp.ExportError, match=r"^the model fails on the example inputs in plain PyTorch, without fcdp: "):
        fcdp.export(model, (torch.randn(5, 4), torch.randn(5, 3)), tmp_path / "step.pt2")
