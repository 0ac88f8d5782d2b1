# SPDX-License-Identifier: Apache-2.0
import inspect

import archive
import pytest
import torch
import torch.nn.functional as F
import transformers
from small_models import BatchNorm, Regression, Tiny, tiny_inputs
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import fcdp


def state(model):
    """Everything an export must leave as it was."""
    return {
        "tensors": {name: tensor.clone() for name, tensor in model.state_dict().items()},
        "identity": {n: (id(p), p.requires_grad) for n, p in model.named_parameters(remove_duplicate=False)},
        "buffers": {n: id(b) for n, b in model.named_buffers(remove_duplicate=False)},
        "gradients": [p.grad for p in model.parameters()],
        "modules": [(n, id(m), m.training, "forward" in vars(m)) for n, m in model.named_modules(remove_duplicate=False)],
        "generator": torch.get_rng_state(),
    }


def assert_same(before, after):
    torch.testing.assert_close(after.pop("tensors"), before.pop("tensors"), rtol=0, atol=0)
    assert torch.equal(before.pop("generator"), after.pop("generator"))
    assert after == before


def regression_inputs():
    return torch.randn(5, 4), torch.randn(5, 3)


def test_archive_has_the_users_names(tmp_path):
    model = Tiny()
    path = tmp_path / "step.pt2"
    exported = fcdp.export(model, tiny_inputs(), path)
    names = [name for name, _ in model.named_parameters()]
    assert archive.user_inputs(path) == ["ids", "labels"] == list(exported.inputs)
    assert archive.input_names(path, "parameter", "parameter_name") == names
    assert archive.gradients(path) == names
    assert exported.gradient_error < 1e-6
    assert [file.name for file in tmp_path.iterdir()] == ["step.pt2"]


def test_same_model_gives_the_same_program(tmp_path):
    model = Tiny()
    for name in ("a", "b"):
        fcdp.export(model, tiny_inputs(), tmp_path / f"{name}.pt2")
    assert archive.program(tmp_path / "a.pt2") == archive.program(tmp_path / "b.pt2")


def test_dict_inputs_are_keywords(tmp_path):
    ids, labels = tiny_inputs()
    path = tmp_path / "step.pt2"
    fcdp.export(Tiny(), {"labels": labels, "ids": ids}, path)
    assert sorted(archive.user_inputs(path)) == ["ids", "labels"]


@pytest.mark.parametrize(("loss_fn", "target"), [(F.mse_loss, "target"), (lambda out, y: (out - y).abs().mean(), "y")])
def test_loss_fn_gets_output_and_last_input(tmp_path, loss_fn, target):
    path = tmp_path / "step.pt2"
    fcdp.export(Regression(), regression_inputs(), path, loss_fn=loss_fn)
    assert archive.user_inputs(path) == ["input", target]


def test_output_with_a_loss(tmp_path):
    class WithLoss(Regression):
        def forward(self, x, y):
            out = self.fc(x)
            return {"loss": F.mse_loss(out, y), "logits": out}

    path = tmp_path / "step.pt2"
    fcdp.export(WithLoss(), regression_inputs(), path)
    outputs = [next(iter(spec)) for spec in archive.program(path)["signature"]["output_specs"]]
    assert outputs == ["loss_output", "gradient_to_parameter", "gradient_to_parameter"]


@pytest.mark.parametrize("model", [Tiny(), Tiny(tied=True), BatchNorm()], ids=["plain", "tied", "buffers"])
def test_model_is_given_back_unchanged(tmp_path, model):
    inputs = (torch.randn(5, 4),) if isinstance(model, BatchNorm) else tiny_inputs()
    before = state(model)
    fcdp.export(model, inputs, tmp_path / "step.pt2")
    assert_same(before, state(model))


def test_model_is_given_back_unchanged_after_an_error(tmp_path, monkeypatch):
    class Unused(Tiny):
        def __init__(self):
            super().__init__(tied=True)
            self.spare = nn.Linear(2, 2)
            self.also_head = self.head

    def fail(*args, **kwargs):
        raise RuntimeError("tracing failed")

    model = Unused()
    before = state(model)
    monkeypatch.setattr(torch.export, "export", fail)
    with pytest.raises(fcdp.ExportError, match="tracing failed"):
        fcdp.export(model, tiny_inputs(), tmp_path / "step.pt2")
    assert_same(before, state(model))
    assert list(tmp_path.iterdir()) == []


def test_evaluation_mode_is_kept(tmp_path):
    model = BatchNorm().eval()
    path = tmp_path / "step.pt2"
    fcdp.export(model, (torch.randn(5, 4),), path)
    outputs = archive.program(path)["signature"]["output_specs"]
    assert not any("buffer_mutation" in spec for spec in outputs)


def test_changed_buffers_are_outputs(tmp_path):
    path = tmp_path / "step.pt2"
    fcdp.export(BatchNorm(), (torch.randn(5, 4),), path)
    outputs = archive.program(path)["signature"]["output_specs"]
    changed = [spec["buffer_mutation"]["buffer_name"] for spec in outputs if "buffer_mutation" in spec]
    assert changed == ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]


def test_unreached_parameters_are_frozen_in_the_archive(tmp_path):
    model = Regression()
    path = tmp_path / "step.pt2"
    exported = fcdp.export(model, regression_inputs(), path, loss_fn=F.mse_loss)
    assert exported.unreached == archive.metadata(path)["unreached"] == ["spare.weight", "spare.bias"]
    assert archive.gradients(path) == ["fc.weight", "fc.bias"]
    weights = archive.read(path, "data/weights/model_weights_config.json")["config"]
    trained = [name for name, weight in weights.items() if weight["tensor_meta"]["requires_grad"]]
    assert trained == ["fc.weight", "fc.bias"]
    assert all(p.requires_grad for p in model.parameters())


def test_frozen_parameters_stay_frozen(tmp_path):
    model = Tiny()
    model.blocks[0].requires_grad_(False)
    path = tmp_path / "step.pt2"
    exported = fcdp.export(model, tiny_inputs(), path)
    assert exported.unreached == []
    assert not any(name.startswith("blocks.0.") for name in archive.gradients(path))
    assert "blocks.0.qkv.weight" in archive.input_names(path, "parameter", "parameter_name")


def test_fake_model_has_a_graph_and_no_weights(tmp_path):
    with FakeTensorMode():
        model = Tiny(tied=True)
    path = tmp_path / "step.pt2"
    exported = fcdp.export(model, tiny_inputs(), path)
    assert exported.gradient_error is None
    assert exported.ties == {"head.weight": "embed.weight"}
    real = tmp_path / "real.pt2"
    fcdp.export(Tiny(tied=True), tiny_inputs(), real)
    targets = [[node["target"] for node in archive.program(p)["graph"]["nodes"]] for p in (path, real)]
    assert targets[0] == targets[1]


def test_export_under_fake_mode_says_what_to_do(tmp_path):
    with FakeTensorMode(), pytest.raises(fcdp.ExportError, match="call fcdp.export outside of it"):
        fcdp.export(Tiny(), tuple(torch.zeros_like(t) for t in tiny_inputs()), tmp_path / "step.pt2")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (lambda self, x, y: self.fc(x), "scalar loss, got shape .5, 3."),
        (lambda self, x, y: (self.fc(x).mean(),), "got tuple"),
        (lambda self, x, y: self.fc(x).mean().detach(), "depends on the parameters"),
        (lambda self, x, y: self.fc(x).argmax(), "floating-point loss, got torch.int64"),
    ],
    ids=["not-scalar", "tuple", "no-gradient", "integer"],
)
def test_losses_that_cannot_be_trained(tmp_path, forward, message):
    model = type("Wrong", (Regression,), {"forward": forward})()
    with pytest.raises(fcdp.ExportError, match=message):
        fcdp.export(model, regression_inputs(), tmp_path / "step.pt2")
    assert list(tmp_path.iterdir()) == []


def test_inputs_that_do_not_fit(tmp_path):
    path = tmp_path / "step.pt2"
    with pytest.raises(fcdp.ExportError, match="do not fit Tiny.forward"):
        fcdp.export(Tiny(), tiny_inputs()[:1], path)
    with pytest.raises(fcdp.ExportError, match="'input' requires a gradient"):
        fcdp.export(Regression(), (torch.randn(5, 4, requires_grad=True), torch.randn(5, 3)), path, F.mse_loss)
    with pytest.raises(fcdp.ExportError, match=r"loss_fn: expected .* output and the target, .* got \(model, x, y\)"):
        fcdp.export(Regression(), regression_inputs(), tmp_path / "step.pt2", loss_fn=lambda model, x, y: y)
    with pytest.raises(fcdp.ExportError, match="at least two example inputs with loss_fn"):
        fcdp.export(Regression(), (torch.randn(5, 4),), path, F.mse_loss)
    with pytest.raises(fcdp.ExportError, match="nothing to train"):
        fcdp.export(Tiny().requires_grad_(False), tiny_inputs(), path)
    with pytest.raises(fcdp.ExportError, match="ends in .pt2"):
        fcdp.export(Tiny(), tiny_inputs(), tmp_path / "step.zip")
    with pytest.raises(fcdp.ExportError, match="expected an existing folder '.*absent'"):
        fcdp.export(Tiny(), tiny_inputs(), tmp_path / "absent" / "step.pt2")


def test_a_tensor_that_is_given_twice_is_two_inputs(tmp_path):
    ids, labels = tiny_inputs()
    for name, inputs in {"same": (ids, ids), "other": (ids, labels), "view": (ids, ids.view(ids.shape))}.items():
        fcdp.export(Tiny(), inputs, tmp_path / f"{name}.pt2")
    assert archive.user_inputs(tmp_path / "same.pt2") == ["ids", "labels"]
    expected = archive.program(tmp_path / "other.pt2")["graph"]["nodes"]
    for name in ("same", "view"):
        nodes = archive.program(tmp_path / f"{name}.pt2")["graph"]["nodes"]
        assert [node["inputs"] for node in nodes] == [node["inputs"] for node in expected]


def test_an_error_of_the_model_is_named_as_such(tmp_path):
    with pytest.raises(fcdp.ExportError, match="the model fails on the example inputs in plain PyTorch.*mat1 and mat2"):
        fcdp.export(Regression(), (torch.randn(5, 7), torch.randn(5, 3)), tmp_path / "step.pt2", F.mse_loss)
    assert list(tmp_path.iterdir()) == []


def test_complex_parameters_are_refused(tmp_path):
    class Complex(nn.Module):
        def __init__(self):
            super().__init__()
            self.rotation = nn.Parameter(torch.ones(3, dtype=torch.complex64))

        def forward(self, x):
            return torch.view_as_real(x * self.rotation).square().mean()

    with pytest.raises(fcdp.ExportError, match="parameter 'rotation' is complex.*view_as_complex"):
        fcdp.export(Complex(), (torch.randn(3),), tmp_path / "step.pt2")


def test_equal_gradients_get_a_hint(tmp_path):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))

        def forward(self, x):
            return (x + self.a + self.b).square().sum(0).mean()

    with pytest.raises(fcdp.ExportError, match="hint: two parameters have the very same gradient"):
        fcdp.export(Twice(), (torch.randn(3),), tmp_path / "step.pt2")


def test_inputs_that_are_not_tensors_are_fixed(tmp_path):
    class Scaled(Regression):
        def forward(self, x, scale, *, extra, mask=None):
            return (self.fc(x) * scale + extra["shift"]).square().mean()

    inputs = {"x": torch.randn(5, 4), "scale": 2.0, "mask": None, "extra": {"shift": torch.randn(3)}}
    path = tmp_path / "step.pt2"
    exported = fcdp.export(Scaled(), inputs, path)
    assert list(exported.inputs) == archive.user_inputs(path) == ["x", "extra_shift"]
    with pytest.raises(fcdp.ExportError, match="only tensors in example input 'extra'"):
        fcdp.export(Scaled(), {**inputs, "extra": {"shift": torch.randn(3), "flag": True}}, path)


@pytest.mark.parametrize("names", [("view", "t"), ("t_1", "addmm"), ("mm", "input")])
def test_inputs_may_have_the_names_of_operations(tmp_path, names):
    class TwoInputs(Regression):
        def forward(self, a, b):
            return (self.fc(a.view(5, 4)) * b.t()).square().mean()

    path = tmp_path / "step.pt2"
    model = TwoInputs()
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    forward = model.forward
    model.forward = lambda *values: forward(*values)
    model.forward.__signature__ = inspect.Signature(parameters)
    exported = fcdp.export(model, (torch.randn(20), torch.randn(3, 5)), path)
    assert archive.user_inputs(path) == list(names) == list(exported.inputs)


def test_operators_of_python_packages_are_refused(tmp_path):
    @torch.library.custom_op("fcdp_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    twice.register_fake(torch.empty_like)
    twice.register_autograd(lambda context, gradient: 2 * gradient)

    class Doubled(Regression):
        def forward(self, x):
            return twice(self.fc(x)).square().mean()

    path = tmp_path / "step.pt2"
    with pytest.raises(fcdp.ExportError, match="calls 'fcdp_test::twice'.*not part of PyTorch's own library"):
        fcdp.export(Doubled(), (torch.randn(5, 4),), path)
    assert not path.exists()


def test_an_evaluation_has_no_gradients(tmp_path):
    model = Tiny().eval()
    before = state(model)
    exported = fcdp.export(model, tiny_inputs(), tmp_path / "eval.pt2", train=False)
    assert_same(before, state(model))
    outputs = [next(iter(spec)) for spec in archive.program(tmp_path / "eval.pt2")["signature"]["output_specs"]]
    assert outputs == ["loss_output"]
    assert exported.gradient_error == 0
    fcdp.export(model, tiny_inputs(), tmp_path / "step.pt2")
    names = [name for name, _ in model.named_parameters()]
    assert archive.input_names(tmp_path / "eval.pt2", "parameter", "parameter_name") == names

    def calls(name):
        # The backward pass reads detached values of the forward pass, in newer versions of PyTorch aliases of them.
        nodes = archive.program(tmp_path / name)["graph"]["nodes"]
        views = ("torch.ops.aten.detach.default", "torch.ops.aten.alias.default")
        return [node["target"] for node in nodes if node["target"] not in views]

    # Its forward pass is that of the step.
    evaluated = calls("eval.pt2")
    assert evaluated == calls("step.pt2")[: len(evaluated)]


def test_an_evaluation_needs_nothing_to_train(tmp_path):
    model = Tiny().eval().requires_grad_(False)
    before = state(model)
    fcdp.export(model, tiny_inputs(), tmp_path / "eval.pt2", train=False)
    assert_same(before, state(model))


def test_an_evaluation_changes_no_buffer(tmp_path):
    with pytest.raises(fcdp.ExportError, match=r"changes its buffer 'norm.* call model.eval\(\) before"):
        fcdp.export(BatchNorm(), (torch.randn(5, 4),), tmp_path / "eval.pt2", train=False)
    assert not (tmp_path / "eval.pt2").exists()


class Marked(nn.Module):
    """Its tensors are contiguous, and marked as conjugate or negative of what their memory has."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.weight = nn.Parameter(torch._neg_view(torch.full((4,), -3.0)))
        self.register_buffer("scale", torch._neg_view(torch.full((4,), -2.0)))
        self.register_buffer("phase", torch.complex(torch.ones(4), torch.ones(4)).conj())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ((self.inner(x) * self.scale + self.weight) * self.phase.imag).square().mean()


def test_marked_tensors_are_resolved(tmp_path):
    model, x = Marked(), torch._neg_view(torch.rand(2, 4))
    assert model.weight.is_neg() and model.scale.is_neg() and model.phase.is_conj() and x.is_neg()
    exported = fcdp.export(model, (x,), tmp_path / "marked.pt2")
    assert exported.gradient_error is not None and exported.gradient_error < 1e-5
    assert model.weight.is_neg() and model.phase.is_conj()
