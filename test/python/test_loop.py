# SPDX-License-Identifier: Apache-2.0
"""The part of fcdp.compile before a session is open: arguments, optimizers, the install, the cache."""

import hashlib
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import fcdp
from fcdp import scaled
from fcdp.call import make_call
from fcdp.errors import ExportError, StepError
from fcdp.loop import build as loop_build
from fcdp.loop import install
from fcdp.loop.arguments import Arguments
from fcdp.loop.optimizer import expect_steps, optimizer_options
from fcdp.optimizers import SOAP, AdamW8bit, Lion
from small_models import Tiny, tiny_inputs


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.bias = nn.Parameter(torch.zeros(3))

    def forward(self, x: torch.Tensor, factor: float, pair: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return (self.weight * x * factor + self.bias + pair[0] - pair[1]).square().mean()


def example() -> dict[str, object]:
    return {"x": torch.zeros(2, 3), "factor": 2.0, "pair": (torch.zeros(2, 3), torch.tensor(1.0))}


def arguments(micro_batches: int = 1) -> Arguments:
    return Arguments(make_call(Scaled(), example(), None), micro_batches)


def test_arguments_by_position_and_name() -> None:
    x, a, b = torch.ones(2, 3), torch.ones(2, 3) * 2, torch.tensor(3.0)
    taken = arguments()
    by_name = taken.split(taken.by_name((), {"pair": (a, b), "x": x}))
    by_position = taken.split(taken.by_name((x, 2.0), {"pair": (a, b)}))
    assert [id(leaf) for leaf in by_name] == [id(leaf) for leaf in by_position] == [id(x), id(a), id(b)]


def test_rows_of_micro_batches() -> None:
    """Rows are split; a scalar is the same for all."""
    x, a, b = torch.arange(12.0).reshape(4, 3), torch.ones(4, 3), torch.tensor(3.0)
    taken = arguments(2)
    leaves = taken.split(taken.by_name((), {"x": x, "pair": (a, b)}))
    assert len(leaves) == 6
    assert torch.equal(leaves[0], x[:2]) and torch.equal(leaves[3], x[2:])
    assert leaves[2] is b and leaves[5] is b


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {"x": torch.zeros(2, 3)}, "expected the arguments x, factor, pair: 'pair' is missing$"),
        ((), {**example(), "y": 1}, "expected the arguments x, factor, pair: 'y' is none of them$"),
        (
            (),
            {"x": torch.zeros(2, 3), "pairs": (torch.zeros(2, 3), torch.tensor(1.0))},
            r"'pair' is missing, 'pairs' is none of them: did you mean 'pair'\?$",
        ),
        ((), {**example(), "x": np.zeros((2, 3))}, r"'x': expected a tensor, got numpy.ndarray: .* torch.from_numpy\(x\)$"),
        ((), {**example(), "x": [[1.0, 2.0, 3.0]] * 2}, r"'x': expected a tensor, got list: convert it with torch.tensor\(x\)$"),
        ((1, 2, 3, 4), {}, "expected at most 3 arguments"),
        ((torch.zeros(2, 3),), example(), "got two values for 'x'"),
        ((), {**example(), "factor": 3.0}, "'factor': the step was compiled for 2.0, got 3.0"),
        ((), {**example(), "pair": torch.zeros(2)}, "'pair': expected the structure of the example"),
        ((), {**example(), "x": 1.5}, r"'x': expected a tensor, got float: convert it with torch.tensor\(x\)$"),
        ((), {**example(), "x": [torch.zeros(4, 2)]}, "'x': expected a tensor, got list: convert it"),
        ((), {**example(), "x": torch.zeros(4, 2).to_sparse()}, "'x': expected a dense tensor .* of torch.sparse_coo"),
        ((), {**example(), "x": torch.zeros(4, 2, device="meta")}, "'x': expected a dense tensor .* on the device meta"),
        ((), {**example(), "x": torch.nested.nested_tensor([torch.zeros(2)])}, "'x': expected a dense tensor .* nested"),
    ],
)
def test_bad_arguments(args: tuple[object, ...], kwargs: dict[str, object], message: str) -> None:
    taken = arguments()
    with pytest.raises(StepError, match=message) as raised:
        taken.split(taken.by_name(args, kwargs))
    assert raised.value.code == "input mismatch"


def test_bad_rows() -> None:
    taken = arguments(2)
    with pytest.raises(StepError, match=r"'x': expected the rows of 2 micro-batches, \[4, 3\], got \[2, 3\]"):
        taken.split(taken.by_name((), example()))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, 7), r"'x': expected the shape of the example, \[2, 3\], got \[2, 7\]: pad all batches to one length, .* more_inputs=.* pad="),
        ((1, 3), r"\[2, 3\], got \[1, 3\]: drop the last batch if it has fewer rows \(DataLoader\(drop_last=True\)\), or .* more_inputs="),
        ((2, 3, 1), r"\[2, 3\], got \[2, 3, 1\]$"),
    ],
)
def test_batches_of_another_shape(shape: tuple[int, ...], message: str) -> None:
    """As a collator makes them that pads each batch to its longest row."""
    taken, batch = arguments(), {**example(), "x": torch.zeros(shape)}
    with pytest.raises(StepError, match=message) as raised:
        taken.split(taken.by_name((), batch))
    assert raised.value.code == "input mismatch"
    with pytest.raises(StepError, match=message):
        taken.of_batch(batch)


def test_batches_above_the_greatest_shape() -> None:
    taken = Arguments(make_call(Scaled(), example(), None), micro_batches=1, may_be_smaller=True)
    taken.of_batch({**example(), "x": torch.zeros(1, 2)})
    with pytest.raises(StepError, match=r"at most \[2, 3\], got \[2, 7\]: add example inputs of that shape to more_inputs"):
        taken.of_batch({**example(), "x": torch.zeros(2, 7)})


def test_optimizer_as_text() -> None:
    assert optimizer_options("sgd,lr=0.1", Scaled()) == ["--optimizer=sgd,lr=0.1"]


def test_adamw_with_groups() -> None:
    model = Scaled()
    groups = [{"params": [model.weight]}, {"params": [model.bias], "weight_decay": 0.0, "lr": 5e-4}]
    assert optimizer_options(torch.optim.AdamW(groups, lr=1e-3, betas=(0.8, 0.9)), model) == [
        "--optimizer=adamw,lr=0.001,eps=1e-08,weight_decay=0.01,beta1=0.8,beta2=0.9",
        "--group=bias:weight_decay=0.0,lr=0.5",
    ]


def test_groups_with_keys_of_others() -> None:
    """OneCycleLR keeps its rates in the groups, and programs put names there."""
    model = Scaled()
    optimizer = torch.optim.AdamW([{"params": [model.weight], "name": "a"}, {"params": [model.bias], "name": "b", "lr": 5e-4}])
    torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=[1e-3, 2e-3], total_steps=9, cycle_momentum=False)
    assert optimizer_options(optimizer, model)[1:] == ["--group=bias:lr=2.0"]


def test_schedulers_do_not_warn_of_a_compiled_step() -> None:
    optimizer = torch.optim.AdamW(Scaled().parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    expect_steps(optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler.step()


def test_sgd() -> None:
    model = Scaled()
    assert optimizer_options(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True), model) == [
        "--optimizer=sgd,lr=0.1,momentum=0.9,dampening=0.0,weight_decay=0.0,nesterov=1"
    ]


def test_lion() -> None:
    model = Scaled()
    assert optimizer_options(Lion(model.parameters(), lr=1e-4), model) == [
        "--optimizer=lion,lr=0.0001,weight_decay=0.0,beta1=0.9,beta2=0.99"
    ]


def test_adamw8bit() -> None:
    model = Scaled()
    assert optimizer_options(AdamW8bit(model.parameters(), betas=(0.8, 0.9)), model) == [
        "--optimizer=adamw8bit,lr=0.001,eps=1e-08,weight_decay=0.01,beta1=0.8,beta2=0.9"
    ]


def test_adafactor() -> None:
    """The first epsilon is that of the type unless it is given."""
    model = Scaled()
    assert optimizer_options(torch.optim.Adafactor(model.parameters()), model) == [
        "--optimizer=adafactor,lr=0.01,beta2_decay=-0.8,d=1.0,weight_decay=0.0,eps2=0.001"
    ]
    groups = [{"params": [model.weight]}, {"params": [model.bias], "lr": 0.1}]
    assert optimizer_options(torch.optim.Adafactor(groups, lr=0.2, eps=(1e-7, 1e-2), d=2.0), model) == [
        "--optimizer=adafactor,lr=0.2,beta2_decay=-0.8,d=2.0,weight_decay=0.0,eps2=0.01,eps1=1e-07",
        "--group=bias:lr=0.5",
    ]
    with pytest.raises(StepError, match="maximize: expected False, got True"):
        optimizer_options(torch.optim.Adafactor(model.parameters(), maximize=True), model)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 4), nn.Linear(4, 2, bias=False)


def muon_and_adamw(model: Layers) -> list[torch.optim.Optimizer]:
    matrices = [{"params": [model.inner.weight]}, {"params": [model.outer.weight], "lr": 0.01}]
    return [
        torch.optim.AdamW([model.inner.bias], lr=1e-3),
        torch.optim.Muon(matrices, lr=0.02, adjust_lr_fn="match_rms_adamw", nesterov=False),
    ]


def test_muon_beside_adamw() -> None:
    """The learning rate of the job is Muon's, whatever the order. Every parameter names its optimizer."""
    model = Layers()
    assert optimizer_options(muon_and_adamw(model), model) == [
        "--optimizer=muon,lr=0.02,weight_decay=0.1,momentum=0.95,eps=1e-07,nesterov=0,ns_a=3.4445,ns_b=-4.775,ns_c=2.0315,"
        "ns_steps=5,adjust_lr_fn=match_rms_adamw+adamw,lr=0.001,eps=1e-08,weight_decay=0.01,beta1=0.9,beta2=0.999",
        "--group=inner.bias:optimizer=adamw",
        "--group=inner.weight:optimizer=muon",
        "--group=outer.weight:optimizer=muon,lr=0.5",
    ]


def test_adafactor_beside_lion() -> None:
    model = Layers()
    adafactor = torch.optim.Adafactor([model.inner.weight, model.outer.weight], lr=0.02)
    assert optimizer_options([Lion([model.inner.bias]), adafactor], model) == [
        "--optimizer=adafactor,lr=0.02,beta2_decay=-0.8,d=1.0,weight_decay=0.0,eps2=0.001"
        "+lion,lr=0.0001,weight_decay=0.0,beta1=0.9,beta2=0.99",
        "--group=inner.bias:optimizer=lion",
        "--group=inner.weight,outer.weight:optimizer=adafactor",
    ]


def test_soap_beside_adamw() -> None:
    model = Layers()
    soap = SOAP([model.inner.weight, model.outer.weight], shampoo_beta=0.5, max_precond_dim=64)
    assert optimizer_options([soap, torch.optim.AdamW([model.inner.bias])], model) == [
        "--optimizer=soap,lr=0.003,shampoo_beta=0.5,eps=1e-08,weight_decay=0.01,beta1=0.95,beta2=0.95,"
        "precondition_frequency=10,max_precond_dim=64"
        "+adamw,lr=0.001,eps=1e-08,weight_decay=0.01,beta1=0.9,beta2=0.999",
        "--group=inner.weight,outer.weight:optimizer=soap",
        "--group=inner.bias:optimizer=adamw",
    ]


def test_muon_alone() -> None:
    model = nn.Linear(4, 2, bias=False)
    optimizer, group = optimizer_options(torch.optim.Muon(model.parameters(), ns_steps=3), model)
    assert optimizer.startswith("--optimizer=muon,lr=0.001,") and "ns_steps=3,adjust_lr_fn=original" in optimizer
    assert "+" not in optimizer and group == "--group=weight:optimizer=muon"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m: torch.optim.Muon([m.inner.weight]), "does not hold inner.bias and 1 more"),
        (lambda m: [torch.optim.AdamW([m.inner.weight]), torch.optim.SGD([m.inner.bias, m.outer.weight])], "or a Muon, an Adafactor or a SOAP and"),
        (lambda m: [torch.optim.Muon([m.inner.weight]), torch.optim.AdamW(m.parameters())], "is in two of them"),
        (
            lambda m: [torch.optim.Muon([m.inner.weight]), *(torch.optim.SGD([p]) for p in (m.inner.bias, m.outer.weight))],
            "expected one optimizer, or",
        ),
        (lambda m: [torch.optim.Muon([m.inner.weight]), torch.optim.Adafactor([m.inner.bias, m.outer.weight])], "none of them"),
    ],
)
def test_optimizers_that_do_not_go_together(make: object, message: str) -> None:
    model = Layers()
    with pytest.raises(StepError, match=message):
        optimizer_options(make(model), model)


def made_a_step(model: Scaled) -> torch.optim.Optimizer:
    optimizer = torch.optim.AdamW(model.parameters())
    model(**example()).backward()
    optimizer.step()
    return optimizer


def with_cycled_betas(model: Scaled) -> torch.optim.Optimizer:
    optimizer = torch.optim.AdamW(model.parameters())
    torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-3, total_steps=9)
    return optimizer


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m: torch.optim.RMSprop(m.parameters()), "expected one of AdamW, SGD, Lion, AdEMAMix, Muon, AdamW8bit, Adafactor"),
        (lambda m: torch.optim.RMSprop(m.parameters()), "got one of type RMSprop$"),
        (lambda m: torch.optim.AdamW, r"got the class AdamW: make an optimizer of it, AdamW\(model.parameters\(\)\)$"),
        (lambda m: torch.optim.Adam(m.parameters()), "use torch.optim.AdamW with weight_decay=0, whose updates are the same$"),
        (
            lambda m: torch.optim.Adam(m.parameters(), weight_decay=0.1, decoupled_weight_decay=True),
            "use torch.optim.AdamW with the same settings, whose updates are the same$",
        ),
        (lambda m: torch.optim.Adam(m.parameters(), weight_decay=0.1), "no optimizer that adds weight_decay to the gradient"),
        (
            lambda m: torch.optim.AdamW(Scaled().parameters()),
            "2 of the 2 parameters that it holds are none of the model's: it is the optimizer of another model",
        ),
        (lambda m: torch.optim.AdamW(m.parameters(), amsgrad=True), "amsgrad: expected False, got True"),
        (lambda m: torch.optim.AdamW([m.weight]), r"does not hold bias, which the model trains: .* or freeze them"),
        (lambda m: torch.optim.AdamW([*m.parameters(), nn.Parameter(torch.ones(1))]), "none of the model's"),
        (
            lambda m: torch.optim.AdamW([{"params": [m.weight]}, {"params": [m.bias], "eps": 1e-3}]),
            "eps: expected one value for all parameter groups",
        ),
        (
            lambda m: torch.optim.SGD([{"params": [m.weight]}, {"params": [m.bias], "lr": 1.0}], lr=0.0),
            "expected a rate above 0 in the first group",
        ),
        (made_a_step, "it has made steps"),
        (with_cycled_betas, "OneCycleLR changes momentum or betas, which a step keeps: give OneCycleLR cycle_momentum=False"),
    ],
)
def test_optimizers_without_equal(make: object, message: str) -> None:
    model = Scaled()
    with pytest.raises(StepError, match=message) as raised:
        optimizer_options(make(model), model)
    assert raised.value.code == "misuse"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An install of files without content, which FCDP_HOME names."""
    for name in ("bin/fcdp-compile", "lib/libfcdp_python.so"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    (tmp_path / "lib" / "fcdp-torch-version").write_text(torch.__version__.partition("+")[0])
    monkeypatch.setenv("FCDP_HOME", str(tmp_path))
    install.find_install.cache_clear()
    install.load_library.cache_clear()
    yield tmp_path
    install.find_install.cache_clear()
    install.load_library.cache_clear()


def test_install_of_another_torch(home: Path) -> None:
    (home / "lib" / "fcdp-torch-version").write_text("2.11.0")
    with pytest.raises(StepError, match="was built for PyTorch 2.11.0, and this is .* install torch==2.11.0"):
        install.find_install()


def test_no_install(home: Path) -> None:
    (home / "bin" / "fcdp-compile").unlink()
    with pytest.raises(StepError, match="run scripts/setup in a checkout, install fcdp's wheel, or set FCDP_HOME"):
        install.find_install()


def test_library_that_cannot_be_loaded(home: Path) -> None:
    with pytest.raises(StepError, match="libfcdp_python.so cannot be loaded into PyTorch") as raised:
        install.load_library()
    assert raised.value.code == "install"


def compiler(home: Path, text: str) -> None:
    path = home / "bin" / "fcdp-compile"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_cache_by_graph_and_options(home: Path, tmp_path: Path) -> None:
    """Other values of parameters and inputs are the same step; other options and shapes are not."""
    made = b"object" + b"\x7fFCDPSUM" + hashlib.sha1(b"object").hexdigest().encode()
    (tmp_path / "made").write_bytes(made)
    compiler(home, f'echo x >> {tmp_path}/count; for out; do :; done; cp {tmp_path}/made "$out"')
    cache, model = tmp_path / "cache", Scaled()
    first = loop_build.build(model, make_call(model, example(), None), ["--a"], cache, check=True)
    with torch.no_grad():
        model.weight.mul_(3)
    other_values = {**example(), "x": torch.ones(2, 3)}
    assert loop_build.build(model, make_call(model, other_values, None), ["--a"], cache, check=True) == first
    assert loop_build.build(model, make_call(model, example(), None), ["--b"], cache, check=True) != first
    other_shape = {**example(), "x": torch.ones(1, 3)}
    assert loop_build.build(model, make_call(model, other_shape, None), ["--a"], cache, check=True) != first
    assert (tmp_path / "count").read_text() == "x\n" * 3
    # An entry that a crash has cut is made again.
    first.path.write_bytes(first.path.read_bytes()[:3])
    assert loop_build.build(model, make_call(model, example(), None), ["--a"], cache, check=True) == first
    assert first.path.read_bytes() == made and (tmp_path / "count").read_text() == "x\n" * 4
    assert sorted(path.suffix for path in cache.iterdir()) == [".so"] * 3


def test_messages_name_the_step_once() -> None:
    paths = [Path("/tmp/step-0.pt2"), Path("/tmp/step-1.pt2")]
    text = "/tmp/step-1.pt2: variant 1 lacks 'v'; it must be exported from the same model as the step '/tmp/step-0.pt2'"
    said = "the step of more_inputs[0]: variant 1 lacks 'v'; it must be exported from the same model as the step"
    assert loop_build._without_paths(text, paths) == said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"options": "--clip-norm=1"}, r"options: expected a list of texts, such as \['--clip-norm=1'\], got the text"),
        ({"options": ["--frozen=nf4"]}, r"options: expected no .--frozen. for a model whose weights are set from its tensors"),
        ({"loss_weight": "fctor"}, "loss_weight: expected the name of an input among 'x', 'pair'; got 'fctor'$"),
        ({"loss_weight": "pai"}, r"loss_weight: .* got 'pai': did you mean 'pair'\?$"),
        ({"pad": {"pair_0": 0, "pare": 1}}, r"pad: .* got 'pare': did you mean 'pair'\?$"),
    ],
)
def test_names_of_inputs_and_options(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(StepError, match=message) as raised:
        fcdp.compile(Scaled(), example(), **arguments)
    assert raised.value.code == "misuse"


def test_misspelt_arguments() -> None:
    with pytest.raises(TypeError, match=r"^compile\(\) got an unexpected keyword argument 'stratgy': did you mean 'strategy'\?$"):
        fcdp.compile(Scaled(), example(), stratgy="zero3")
    with pytest.raises(TypeError, match="unexpected keyword argument 'zzz'$"):
        fcdp.compile(Scaled(), example(), zzz=1)
    with pytest.raises(ExportError, match=r"full_masks: .* got 'pairs': did you mean 'pair'\?$"):
        make_call(Scaled(), example(), None, ["pairs"])


def test_messages_of_the_compiler_name_no_temporary_archives(home: Path, tmp_path: Path) -> None:
    compiler(home, 'echo "$1: error: a" >&2; echo "cannot read \'$2\'" >&2; echo "${3#--eval=}: c" >&2; exit 1')
    model = Scaled()
    call = make_call(model, example(), None)
    with pytest.raises(StepError) as raised:
        loop_build.build(model, call, [], tmp_path / "cache", check=False, evaluation=call, greater=[call])
    assert str(raised.value) == "the step: error: a\ncannot read the step of more_inputs[0]\nthe evaluation: c"


def test_compiler_refuses(home: Path, tmp_path: Path) -> None:
    compiler(home, "echo 'error: no such strategy' >&2; exit 1")
    model = Scaled()
    with pytest.raises(StepError, match="error: no such strategy") as raised:
        loop_build.build(model, make_call(model, example(), None), [], tmp_path / "cache", check=False)
    assert raised.value.code == "compile"
    assert not any((tmp_path / "cache").iterdir())


class Suspicious(Scaled):
    """Its loss is another one while it is traced."""

    def forward(self, x: torch.Tensor, factor: float, pair: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return super().forward(x, factor, pair) * (1 if type(x) is torch.Tensor else 2)


def test_check_before_the_first_compilation(home: Path, tmp_path: Path) -> None:
    compiler(home, "exit 1")
    model = Suspicious()
    with pytest.raises(ExportError, match="the archive's loss is"):
        loop_build.build(model, make_call(model, tuple(example().values()), None), [], tmp_path / "cache", check=True)


def test_units_that_are_not_compared_are_named(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(home, "exit 1")
    monkeypatch.setattr(scaled, "MOST_OPERATIONS", 1)
    with fcdp.empty_weights():
        model = Tiny()
    with pytest.warns(UserWarning, match=r"not compared with eager PyTorch: unit 'blocks.0'.*: it would take"):
        with pytest.raises(StepError, match="ended with code 1"):
            loop_build.build(model, make_call(model, tiny_inputs(), None), [], tmp_path / "cache", check=True)
