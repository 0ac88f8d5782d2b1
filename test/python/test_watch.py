# SPDX-License-Identifier: Apache-2.0
"""If a model does more than compute from inputs and weights, the export sees and names it, with and without weights."""

import collections
import colorsys
import contextvars
import cProfile
import dataclasses
import datetime
import functools
import itertools
import logging
import os
import random
import re
import secrets
import subprocess
import sys
import time
from time import perf_counter

import archive
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_full_backward_hook
from torch.utils.checkpoint import checkpoint

import fcdp
from fcdp.call import make_call
from fcdp.exporter import export_without_values
from fcdp.watch import step

INPUT = (torch.randn(4, 6),)
SHARED = {"passes": 0}
GENERATOR, LOCAL = np.random.default_rng(0), random.Random(0)
PASSES = 0


class Pair(nn.Module):
    """Two layers, `first` and `second`, and what `prepare` makes."""

    def __init__(self, forward=None, prepare=None):
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.function = forward
        if prepare:
            prepare(self)

    def forward(self, x):
        if self.function:
            return self.function(self, x).square().mean()
        return (self.first(x) + self.second(x)).square().mean()


def export(tmp_path, make, empty=True, **options):
    if not empty:
        return fcdp.export(make(), INPUT, tmp_path / "step.pt2", **options)
    with fcdp.empty_weights():
        model = make()
    return fcdp.export(model, INPUT, tmp_path / "step.pt2", **options)


def refused(tmp_path, make, message, empty=True):
    with pytest.raises(fcdp.ExportError) as error:
        export(tmp_path, make, empty)
    assert re.search(message, str(error.value)), error.value
    assert list(tmp_path.iterdir()) == []


# --- hooks on gradients ---


def with_a_hook_before(model):
    weight = nn.Parameter(torch.ones(6, 6))
    weight.register_hook(torch.neg)
    model.second.weight = weight


def with_a_held_node(model):
    weight = model.second.weight
    model.node = weight.view_as(weight).grad_fn.next_functions[0][0]
    model.node.register_hook(lambda *_: None)


WEIGHT, MODULE = "of parameter 'second.weight'", r"of module 'second' \(Linear\)"
HOOKS = [
    (lambda model: model.second.weight.register_hook(torch.neg), WEIGHT),
    (lambda model: model.second.weight.register_post_accumulate_grad_hook(lambda p: None), WEIGHT),
    (with_a_hook_before, WEIGHT),
    (with_a_held_node, WEIGHT),
    (lambda model: model.second.register_full_backward_hook(lambda *_: None), MODULE),
    (lambda model: model.second.register_full_backward_pre_hook(lambda *_: None), MODULE),
    (lambda model: model.register_full_backward_hook(lambda *_: None), r"of the model \(Pair\)"),
]


@pytest.mark.parametrize("empty", [False, True], ids=["weights", "empty"])
@pytest.mark.parametrize(("register", "owner"), HOOKS)
def test_a_hook_on_a_gradient(tmp_path, register, owner, empty):
    refused(tmp_path, lambda: Pair(prepare=register), rf"no hook on the gradient {owner}, found .*requires_grad_\(False\)", empty)


def test_a_hook_on_the_gradients_of_all_modules(tmp_path):
    handle = register_module_full_backward_hook(lambda *_: None)
    try:
        refused(tmp_path, Pair, "no hook on the gradient of all modules")
    finally:
        handle.remove()


def test_a_hook_on_a_frozen_parameter_is_never_called(tmp_path):
    def prepare(model):
        model.second.weight.register_hook(torch.neg)
        model.second.weight.requires_grad_(False)

    export(tmp_path, lambda: Pair(prepare=prepare))


def test_a_graph_that_is_alive_is_no_hook(tmp_path):
    model = Pair()
    loss = model(*INPUT)
    exported = fcdp.export(model, INPUT, tmp_path / "step.pt2")
    assert exported.gradient_error == 0 and loss.grad_fn is not None


def test_hooks_on_the_forward_pass_are_kept(tmp_path):
    def prepare(model):
        model.first.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        model.second.register_forward_hook(lambda module, args, output: output * 2)

    assert export(tmp_path, lambda: Pair(prepare=prepare), empty=False).gradient_error == 0


def test_an_evaluation_needs_no_hooks_on_gradients(tmp_path):
    export(tmp_path, lambda: Pair(prepare=lambda model: model.second.weight.register_hook(torch.neg)), train=False)


# --- calls in forward ---


def reverse(model, x):
    hidden = model.first(x)
    hidden.register_hook(torch.neg)
    return model.second(hidden)


def reverse_by_node(model, x):
    hidden = model.first(x)
    hidden.grad_fn.register_hook(lambda *_: None)
    return model.second(hidden)


def hook_in_forward(model, x):
    model.second.register_full_backward_hook(lambda *_: None)
    return model.first(x) + model.second(x)


def halve_what_is_saved(model, x):
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, lambda saved: saved / 2):
        return model.first(x).square() + model.second(x)


def penalty(model, x):
    x = x.detach().requires_grad_(True)
    gradient = torch.autograd.grad(model.first(x).sum(), x, create_graph=True)[0]
    return gradient + model.second(x)


def penalty_by_func(model, x):
    return torch.func.grad(lambda value: model.second(value).sum())(model.first(x))


def backward(model, x):
    model.second(x).sum().backward()
    return model.first(x)


def freeze_for_one_term(model, x):
    model.second.requires_grad_(False)
    one = model.second(model.first(x))
    model.second.requires_grad_(True)
    return one + model.second(model.first(x).detach())


def freeze_by_assignment(model, x):
    model.second.bias.requires_grad = False
    one = model.second(x)
    model.second.bias.requires_grad = True
    return one + model.first(x)


def same_masks(model, x):
    with torch.random.fork_rng():
        one = F.dropout(model.first(x))
    return one + F.dropout(model.second(x))


def seeded(model, x):
    torch.manual_seed(3)
    return F.dropout(model.first(x))


def generated(model, x):
    return model.first(x) * torch.rand(6, generator=torch.Generator().manual_seed(1))


HERE = r"'{}', .*test_watch.py:\d+ in module '{}'\)"
RANDOM = r"random numbers outside of PyTorch \(" + HERE + ".*functions of torch"
OTHER = "random numbers outside of PyTorch, from '{}' "
RANKS = r"asks for ranks \('{}', .*test_watch.py"
TIME = r"reads the time \('{}', .*an input"
IN_FORWARD = [
    (reverse, r"registers a hook on a gradient \('Tensor.register_hook', .*test_watch.py:\d+\).*torch.autograd.Function"),
    (reverse_by_node, "registers a hook on a gradient"),
    (hook_in_forward, "registers a hook on a gradient"),
    (halve_what_is_saved, "has hooks on the tensors that are saved for the backward pass"),
    (penalty, r"computes gradients \('grad', .*test_watch.py:\d+\)"),
    (penalty_by_func, "computes gradients"),
    (backward, "computes gradients"),
    (freeze_for_one_term, r"whether the parameter 'second.weight' is trained \('requires_grad=False', .*test_watch.py:\d+\).*detach"),
    (freeze_by_assignment, "whether the parameter 'second.bias' is trained"),
    (same_masks, r"seed of a random generator of PyTorch \('fork_rng'"),
    (seeded, r"seed of a random generator of PyTorch \('manual_seed', .*the job seeds"),
    (generated, "seed of a random generator of PyTorch"),
    (lambda model, x: (model.first, model.second)[random.randrange(2)](x), "random numbers outside of PyTorch"),
    (lambda model, x: model.first(x) * LOCAL.random(), "random numbers outside of PyTorch"),
    (lambda model, x: model.first(x) * np.random.rand(), OTHER.format("numpy.random")),
    (lambda model, x: model.first(x) * float(GENERATOR.random()), OTHER.format("test_watch.GENERATOR")),
    (lambda model, x: model.first(x) * os.urandom(1)[0], "random numbers outside of PyTorch"),
    (lambda model, x: model.first(x) * secrets.randbelow(3), "random numbers outside of PyTorch"),
    (lambda model, x: model.first(x) * perf_counter(), TIME.format("time.perf_counter")),
    (lambda model, x: model.first(x) * datetime.datetime.now().second, TIME.format("datetime.now")),
    (lambda model, x: model.first(x) * (1 + torch.distributed.is_initialized()), RANKS.format("is_initialized")),
    (lambda model, x: model.first(x) * int(os.environ.get("RANK", 1)), RANKS.format("Mapping.get")),
    (lambda model, x: model.first(x) * int(os.getenv("OMPI_COMM_WORLD_RANK", "1")), "asks for ranks"),
    (lambda model, x: model.first(x) * (1 + bool(torch.distributed.group.WORLD)), "asks for ranks"),
    (lambda model, x: model.first(x) * time.clock_gettime_ns(0), TIME.format("time.clock_gettime_ns")),
    (lambda model, x: model.first(x) * int(time.strftime("%S")), TIME.format("time.strftime")),
    (lambda model, x: model.first(x) * len(torch.get_rng_state()), "seed of a random generator"),
]


@pytest.mark.parametrize(("forward", "message"), IN_FORWARD)
def test_what_a_pass_shows(tmp_path, forward, message):
    refused(tmp_path, lambda: Pair(forward), message)


def test_a_model_with_weights_is_watched_too(tmp_path):
    for seed in range(3):
        random.seed(seed)
        refused(tmp_path, lambda: Pair(lambda model, x: model.first(x) * (random.random() < 2)), "random numbers", empty=False)
    refused(tmp_path, lambda: Pair(freeze_for_one_term), "'second.weight' is trained", empty=False)
    refused(tmp_path, lambda: Pair(penalty), r"computes gradients \('grad'", empty=False)


def test_the_module_is_named(tmp_path):
    class Dropped(nn.Linear):
        def forward(self, x):
            return x if random.random() < 0.1 else super().forward(x)

    def prepare(model):
        model.second = Dropped(6, 6)

    refused(tmp_path, lambda: Pair(prepare=prepare), RANDOM.format("Random.random", "second"))


def test_what_has_no_effect_on_a_step(tmp_path):
    def forward(model, x):
        logging.getLogger(__name__).warning("a line has the time")
        # Transformers does this for checkpoints of adapters.
        hidden = model.first(x) + x.detach().requires_grad_(True)
        model.first.weight.requires_grad_(True)
        with torch.autograd.graph.save_on_cpu():
            hidden = hidden.square()
        with torch.no_grad():
            scale = model.first(x).mean()
        return model.second(hidden) * scale * len(os.environ.get("HOME", ""))

    assert export(tmp_path, lambda: Pair(forward), empty=False).gradient_error == 0


def test_a_profiler_goes_on_after_the_export(tmp_path):
    profiler = cProfile.Profile()
    profiler.enable()
    export(tmp_path, Pair)
    colorsys.rgb_to_hsv(0.1, 0.2, 0.3)
    profiler.disable()
    assert "rgb_to_hsv" in {getattr(entry.code, "co_name", entry.code) for entry in profiler.getstats()}


def test_a_function_that_profiles_goes_on_after_the_export(tmp_path):
    seen = []
    sys.setprofile(lambda frame, event, function: seen.append(frame.f_code.co_name))
    try:
        export(tmp_path, Pair)
        colorsys.rgb_to_hsv(0.1, 0.2, 0.3)
    finally:
        sys.setprofile(None)
    assert "rgb_to_hsv" in seen


def by_inference_mode(model, x):
    with torch.inference_mode():
        scale = model.first(x)
    return model.second(x) * scale.clone()


@torch.inference_mode()
def teach(model, x):
    return model.first(x)


@pytest.mark.parametrize("forward", [by_inference_mode, lambda model, x: model.second(x) - teach(model, x)])
def test_what_is_under_inference_mode_is_not_trained(tmp_path, forward):
    exported = export(tmp_path, lambda: Pair(forward), check=False)
    assert exported.unreached == ["first.weight", "first.bias"]
    assert archive.gradients(tmp_path / "step.pt2") == ["second.weight", "second.bias"]


def test_what_is_trained_beside_inference_mode(tmp_path):
    model = Pair(lambda model, x: model.first(x).tanh() - teach(model, x))
    assert fcdp.export(model, INPUT, tmp_path / "step.pt2").gradient_error == 0
    with torch.inference_mode():
        assert torch.is_inference_mode_enabled()


def test_a_program_of_torch_script(tmp_path):
    def prepare(model):
        model.second = torch.jit.script(model.second)

    message = r"^module 'second' \(RecursiveScriptModule\) is a program of TorchScript.*torch.jit.script"
    refused(tmp_path, lambda: Pair(prepare=prepare), message, empty=False)


@pytest.mark.parametrize("module", [nn.SyncBatchNorm(6), nn.DataParallel(nn.Linear(6, 6))], ids=["norm", "wrapper"])
def test_a_module_that_uses_other_ranks(tmp_path, module):
    refused(tmp_path, lambda: Pair(prepare=lambda model: setattr(model, "second", module)), "^module 'second'", empty=False)


def test_a_norm_over_ranks_that_is_not_trained(tmp_path):
    def prepare(model):
        model.second = nn.SyncBatchNorm(6).eval()

    export(tmp_path, lambda: Pair(prepare=prepare), empty=False)


# --- what a pass leaves ---


@dataclasses.dataclass
class Counts:
    calls: int = 0


def count_in(path):
    """A forward pass that counts itself at a path, such as "counts['a']"."""

    def forward(model, x):
        exec(f"model.{path} += 1")
        return model.first(x)

    return forward


def count_for_all(model, x):
    global PASSES
    PASSES += 1
    return model.first(x)


def count_in_a_global(model, x):
    SHARED["passes"] += 1
    return model.first(x)


def counting_around():
    count = 0

    def forward(model, x):
        nonlocal count
        count += 1
        return model.first(x)

    return forward


def moving_mean(model, x):
    hidden = model.first(x)
    model.mean = getattr(model, "mean", torch.zeros(6)) * 0.9 + hidden.detach().mean(0)
    return hidden * model.mean


def first_batch(model, x):
    hidden = model.first(x)
    if not hasattr(model, "start"):
        model.start = hidden.detach()
    return hidden - model.start


def another_first_pass(model, x):
    is_first, model.is_first = getattr(model, "is_first", True), False
    return model.first(x) * torch.tensor(0.0 if is_first else 1.0)


def other_layer_first(model, x):
    is_first, model.is_first = getattr(model, "is_first", True), False
    return (model.first if is_first else model.second)(x)


def without_gradient_first(model, x):
    is_first, model.is_first = getattr(model, "is_first", True), False
    with torch.set_grad_enabled(not is_first):
        hidden = model.first(x)
    return model.second(hidden)


def as_told(name, value):
    return lambda model: setattr(model, name, value)


def momentum(model, x):
    with torch.no_grad():
        model.second.weight.mul_(0.9).add_(model.first.weight, alpha=0.1)
    return model.first(x) - model.second(x)


def another_parameter(model, x):
    model.second.weight = nn.Parameter(model.second.weight.detach() * 0.9, requires_grad=False)
    return model.first(x) - model.second(x)


def late_layer(model, x):
    if not hasattr(model, "late"):
        model.late = nn.Linear(6, 6)
    return model.late(model.first(x))


def freeze_second(model):
    model.second.requires_grad_(False)


def take_next(model, x):
    return model.first(x) * next(model.numbers)


LEFT = [
    (count_in("calls"), as_told("calls", 0), r"forward changes 'calls': it was 0, and is 1 .*register_buffer"),
    (count_in("second.calls"), lambda model: setattr(model.second, "calls", 0.5), "changes 'second.calls': it was 0.5, and is 1.5"),
    (count_in("counts['a']"), as_told("counts", {"a": 0}), r"changes 'counts\['a'\]'"),
    (count_in("counts[1][0]"), as_told("counts", ({}, [3])), r"changes 'counts\[1\]\[0\]'"),
    (count_in("counts.calls"), as_told("counts", Counts()), "changes 'counts.calls'"),
    (count_in("counts['a']"), as_told("counts", collections.Counter()), r"changes 'counts\['a'\]'"),
    (take_next, as_told("numbers", itertools.count()), r"changes 'numbers': .*count\(1\)"),
    (take_next, lambda model: setattr(model, "numbers", iter([1, 2, 3])), "changes 'numbers'"),
    (take_next, lambda model: setattr(model, "numbers", itertools.cycle([1, 2])), "changes 'numbers'"),
    (take_next, lambda model: setattr(model, "numbers", (number for number in range(9))), "changes 'numbers'"),
    (take_next, lambda model: setattr(model, "numbers", map(float, [1, 2, 3])), "changes 'numbers'"),
    (lambda model, x: [model.first(x), model.seen.append(1)][0], as_told("seen", []), r"changes 'len\(seen\)'"),
    (lambda model, x: [model.first(x), model.seen.add(len(model.seen))][0], as_told("seen", set()), "changes 'seen'"),
    (lambda model, x: [model.first(x), model.train(not model.training)][0], None, "changes 'training'"),
    (lambda model, x: model.first(x) * float(model.own.random()), as_told("own", np.random.default_rng(0)), OTHER.format("own")),
    (count_for_all, None, "changes 'test_watch.PASSES'"),
    (count_in_a_global, None, r"changes 'test_watch.SHARED\['passes'\]'"),
    (counting_around(), None, "changes 'count "),
    (moving_mean, None, "changes 'mean': it was not there, and is a tensor"),
    (first_batch, None, "changes 'start'"),
    (another_first_pass, None, "changes 'is_first'"),
    (other_layer_first, None, "changes 'is_first'"),
    (without_gradient_first, None, "changes 'is_first'"),
    (momentum, freeze_second, "changes the parameter 'second.weight';.*buffer"),
    (another_parameter, freeze_second, "changes the parameter 'second.weight'"),
    (late_layer, None, "changes the module 'late'"),
    (lambda model, x: model.first(x) if torch.rand(()).item() < 0.5 else x, None, r"needs the values of a tensor, .*test_watch.py:\d+\)"),
]


@pytest.mark.parametrize(("forward", "prepare", "message"), LEFT)
def test_what_a_pass_leaves_for_the_next(tmp_path, forward, prepare, message):
    refused(tmp_path, lambda: Pair(forward, prepare), message)


VARIABLE = contextvars.ContextVar("VARIABLE", default=0)


def count_in_a_variable(model, x):
    VARIABLE.set(VARIABLE.get() + 1)
    return model.first(x) * VARIABLE.get()


def count_in_the_environment(model, x):
    os.environ["TEST_WATCH"] = str(int(os.environ.get("TEST_WATCH", 0)) + 1)
    return model.first(x) * int(os.environ["TEST_WATCH"])


def count_in_a_library(model, x):
    colorsys.passes = getattr(colorsys, "passes", 0) + 1
    return model.first(x) * colorsys.passes


def count_in_a_parameter(model, x):
    model.first.weight.calls = getattr(model.first.weight, "calls", 0) + 1
    return model.first(x) * model.first.weight.calls


def turn(model, x):
    model.scales.append(model.scales.pop(0))
    return model.first(x) * model.scales[0]()


class Scaled(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        Scaled.calls += 1
        return gradient * Scaled.calls


OUT_OF_REACH = [
    (count_in_a_variable, None),
    (count_in_the_environment, None),
    (count_in_a_library, None),
    (count_in_a_parameter, None),
    (turn, as_told("scales", [lambda: 1.0, lambda: 2.0])),
    (lambda model, x: Scaled.apply(model.first(x)), None),
]


@pytest.mark.parametrize("empty", [False, True], ids=["weights", "empty"])
@pytest.mark.parametrize(("forward", "prepare"), OUT_OF_REACH)
def test_what_a_pass_leaves_out_of_reach(tmp_path, monkeypatch, forward, prepare, empty):
    monkeypatch.setenv("TEST_WATCH", "0")
    numbers = r"aten.mul.Tensor\([\d.]+\) at .*test_watch.py:\d+"
    message = f"does not do the same when it runs again: the first time it has {numbers}, and then {numbers}; "
    refused(tmp_path, lambda: Pair(forward, prepare), message, empty)


def test_an_iterator_without_an_end(tmp_path):
    """It has no position."""
    export(tmp_path, lambda: Pair(take_next, lambda model: setattr(model, "numbers", itertools.repeat(2))))


def test_a_generator_of_the_model(tmp_path):
    def forward(model, x):
        return model.first(x) * torch.rand(6, generator=model.generator)

    def prepare(model):
        model.generator = torch.Generator()

    seeds = "seed of a random generator of PyTorch, from 'generator'"
    refused(tmp_path, lambda: Pair(forward, prepare), seeds, empty=False)
    refused(tmp_path, lambda: Pair(forward, prepare), "no tensor or number, such as a torch.Generator")


def test_a_lazy_module(tmp_path):
    def prepare(model):
        model.second = nn.LazyLinear(6)

    for empty in (False, True):
        refused(tmp_path, lambda: Pair(prepare=prepare), "'second.weight' is of a lazy module.*run the model once", empty)


def test_the_export_of_loops_sees_the_same(tmp_path):
    for make in (lambda: Pair(reverse), lambda: Pair(count_for_all), lambda: Pair(prepare=HOOKS[0][0])):
        model = make()
        with pytest.raises(fcdp.ExportError, match="hook on|hook|changes"):
            export_without_values(model, make_call(model, INPUT, None), tmp_path / "step.pt2")


def test_a_loss_that_counts(tmp_path):
    class Loss:
        calls = 0

        def __call__(self, output, target):
            self.calls += 1
            return (output - target).square().mean()

    loss = Loss()
    with pytest.raises(fcdp.ExportError, match=r"forward changes 'loss_fn.calls'"):
        fcdp.export(nn.Linear(6, 6), (*INPUT, torch.ones(4, 6)), tmp_path / "step.pt2", loss_fn=loss)
    assert loss.calls == 0


def cached(model, x):
    """Keeps a table and its length, the last hidden state, and a list that each pass makes."""
    if getattr(model, "length", 0) < len(x):
        model.length, model.table = len(x), torch.cos(torch.arange(6.0) * len(x))
    model.hidden, model.parts = model.first(x), []
    model.parts.append(model.hidden * model.table)
    return sum(model.parts)


def test_a_table_in_a_buffer_is_no_state(tmp_path):
    def forward(model, x):
        if not model.is_filled:
            model.table, model.is_filled = torch.cos(torch.arange(6.0)), True
        return model.first(x) * model.table

    def prepare(model):
        model.is_filled = False
        model.register_buffer("table", torch.zeros(6), persistent=False)

    assert export(tmp_path, lambda: Pair(forward, prepare), empty=False).gradient_error == 0


def test_a_table_of_a_cached_function(tmp_path):
    """Entries that a pass without values puts into the cache are taken out."""

    @functools.lru_cache
    def table(size):
        return torch.cos(torch.arange(size))

    def forward(model, x):
        return model.first(x) * table(x.shape[1])

    export(tmp_path, lambda: Pair(forward))
    model = Pair(forward)
    export_without_values(model, make_call(model, INPUT, None), tmp_path / "step.pt2")
    assert type(table(6)) is torch.Tensor and model(*INPUT).isfinite()


TABLES = {}


def test_a_table_in_a_global(tmp_path):
    def forward(model, x):
        if "table" not in TABLES:
            TABLES["table"] = torch.cos(torch.arange(6))
        return model.first(x) * TABLES["table"]

    export(tmp_path, lambda: Pair(forward))
    assert {type(table) for table in TABLES.values()} <= {torch.Tensor}


def test_caches_are_no_state(tmp_path):
    """The model has none of them afterwards, and the step computes what a first pass does."""
    for empty in (False, True):
        models = []
        export(tmp_path, lambda: models.append(Pair(cached)) or models[0], empty)
        assert not {"length", "table", "hidden", "parts"} & vars(models[0]).keys()


# --- compiled functions, and checkpoints ---

COMPILED = torch.compile(lambda x: torch.sin(x) * 2)


def test_what_is_compiled_runs_in_python(tmp_path):
    """Otherwise PyTorch compiles kernels for tensors without memory and calls them."""

    def prepare(model):
        model.second = torch.compile(model.second)
        model.first.compile()

    export(tmp_path, lambda: Pair(lambda model, x: COMPILED(model.first(x)) + model.second(x), prepare))
    names = archive.input_names(tmp_path / "step.pt2", "parameter", "parameter_name")
    assert names == ["first.weight", "first.bias", "second._orig_mod.weight", "second._orig_mod.bias"]


def test_a_compiled_function_is_watched(tmp_path):
    function = torch.compile(lambda x: x * random.random())
    refused(tmp_path, lambda: Pair(lambda model, x: function(model.first(x))), "random numbers outside of PyTorch")


def test_a_checkpoint_has_the_masks_of_the_forward_pass(tmp_path):
    """With preserve_rng_state=False plain PyTorch draws others when it computes again, and its gradients are wrong."""

    def forward(model, x):
        block = nn.Sequential(model.first, nn.Dropout(0.5), model.second)
        hidden = checkpoint(block, x, use_reentrant=False, preserve_rng_state=False)
        return F.dropout(hidden, 0.1)

    assert export(tmp_path, lambda: Pair(forward), empty=False).gradient_error == 0


LINKED = """
import sys, torch, fcdp
from torch import nn
from torch.utils.checkpoint import checkpoint
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5))
    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=False).square().mean()
fcdp.export(Model(), (torch.ones(4, 6),), sys.argv[1])
assert torch.__file__.startswith(sys.argv[2]), torch.__file__
"""


def test_a_python_behind_a_link(tmp_path):
    """Code of PyTorch has the name of the link there, and is not the user's."""
    link = tmp_path / "python"
    link.symlink_to(sys.prefix)
    subprocess.run([link / "bin/python", "-W", "ignore", "-c", LINKED, tmp_path / "step.pt2", link], check=True)


class Making(collections.OrderedDict):
    """Makes a number of what it holds, as registries of classes do."""

    def __getitem__(self, key):
        return super().__getitem__(key)()


REGISTRY = Making(one=lambda: 1)


def test_what_is_read_stays_as_it_was(tmp_path):
    own = Making(two=lambda: 2)

    def forward(model, x):
        model.own["three"] = lambda: 3
        return model.first(x) * REGISTRY["one"] * model.own["two"]

    models = []
    export(tmp_path, lambda: models.append(Pair(forward, as_told("own", own))) or models[0], empty=False)
    assert REGISTRY["one"] == 1 and own["two"] == 2 and list(own) == ["two"]


# --- models without values, whose first pass is watched and recorded at once ---


@torch.library.custom_op("watched::stamped", mutates_args=())
def stamped(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@stamped.register_fake
def _(x):
    return torch.full_like(x, time.time())


def test_operators_of_a_program_are_watched(tmp_path):
    refused(tmp_path, lambda: Pair(lambda model, x: model.first(x) + stamped(x)), "reads the time")


def test_two_passes_show_that_a_step_repeats(tmp_path, monkeypatch):
    monkeypatch.setattr(step, "refuse_carried", lambda *_: pytest.fail("two more passes"))
    export(tmp_path, Pair)
