# SPDX-License-Identifier: Apache-2.0
"""Each private function of PyTorch does what fcdp expects. scripts/test-torch runs this with other versions of
PyTorch."""

import ast
import contextlib
import inspect
import sys
import types
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import fx, nn
from torch.export.graph_signature import OutputKind
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint

from fcdp import torch_private

PACKAGE = Path(torch_private.__file__).parent


class Loss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("scale", torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (nn.functional.silu(self.layer(x)).tanh() * self.scale).square().mean()


def exported() -> torch.export.ExportedProgram:
    return torch.export.export(Loss(), (torch.ones(4, 3),), strict=False)


def operators(graph_module: fx.GraphModule) -> list[str]:
    return [torch_private.operator_name(node.target) for node in graph_module.graph.nodes if node.op == "call_function"]


def detached_twice(graph_module: fx.GraphModule) -> bool:
    detach = torch.ops.aten.detach.default
    nodes = [node for node in graph_module.graph.nodes if node.target is detach]
    return any(node.args[0].target is detach for node in nodes)


def joint() -> torch.export.ExportedProgram:
    return torch_private.decompose_to_joint(exported(), [torch.ops.aten.silu_backward.default])


def archive_files(path: Path) -> dict[str, bytes]:
    """Returns the files of an archive by their names below its root folder."""
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def test_joint_has_the_loss_and_the_gradients_and_decomposes_nothing() -> None:
    program = joint()
    # Fused attention, the reason for a joint graph of our own, is in test_export.py.
    kinds = {spec.target or "": spec.kind for spec in program.graph_signature.output_specs}
    assert kinds == {
        "": OutputKind.LOSS_OUTPUT,
        "layer.weight": OutputKind.GRADIENT_TO_PARAMETER,
        "layer.bias": OutputKind.GRADIENT_TO_PARAMETER,
    }
    assert {"aten::addmm", "aten::silu", "aten::silu_backward", "aten::tanh_backward"} <= set(operators(program.graph_module))


def test_a_saved_program_is_that_of_torch(tmp_path: Path) -> None:
    program = exported()
    torch_private.save_program(program, tmp_path / "ours.pt2", {"note": "x"})
    torch.export.save(program, tmp_path / "theirs.pt2", extra_files={"note": "x"})
    ours, theirs = archive_files(tmp_path / "ours.pt2"), archive_files(tmp_path / "theirs.pt2")
    assert ours.keys() == theirs.keys()
    assert {name for name in ours if ours[name] != theirs[name]} <= {".data/serialization_id"}


def test_what_asks_for_metadata() -> None:
    assert torch_private.asks_for_metadata(torch.ops.prim.device.default)
    assert not torch_private.asks_for_metadata(torch.ops.aten.add.Tensor)
    assert not torch_private.asks_for_metadata(len)


def test_copies_share_no_graph_and_join_detach() -> None:
    program = joint()
    graph_module, signature = torch_private.copy_of(program, join_detach=True)
    # PyTorch 2.15 has aten.alias in their place.
    assert detached_twice(program.graph_module) or "aten::alias" in operators(program.graph_module)
    assert not detached_twice(graph_module)
    with warnings.catch_warnings(action="error"):
        whole, _ = torch_private.copy_of(program)
    assert operators(whole) == operators(program.graph_module)
    assert whole.graph is not program.graph and signature is not program.graph_signature
    changed = torch_private.with_graph(program, graph_module, signature)
    assert changed.graph is graph_module.graph and changed.graph_signature == signature
    assert changed.state_dict.keys() == program.state_dict.keys()


def test_the_trace_is_that_of_export() -> None:
    seen = []

    def wrap(traced: torch_private.Trace) -> torch_private.Trace:
        def trace(*args: object, **kwargs: object) -> tuple[object, object, object, object]:
            graph_module, *others = traced(*args, **kwargs)
            seen.append([node.meta for node in graph_module.graph.nodes if node.op == "call_function"])
            return (graph_module, *others)

        return trace

    with torch_private.traced_by(wrap):
        joint()
    joint()
    assert len(seen) == 1
    # Labels are made of these.
    assert any("nn_module_stack" in meta for meta in seen[0])
    assert any(meta.get("partitioner_tag") == "is_backward" for meta in seen[0])
    assert any("stack_trace" in meta for meta in seen[0])


def calls_of(graph: fx.Graph) -> list[fx.Node]:
    return [node for node in graph.nodes if node.op == "call_function"]


def test_operators_that_a_trace_records_as_they_are() -> None:
    aten = torch.ops.aten
    assert torch_private.is_functional(aten.add.Tensor) and torch_private.is_functional(aten.linear.default)
    assert torch_private.is_pytorchs(aten.add_.Tensor) and not torch_private.is_pytorchs(torch.ops.higher_order.cond)
    assert not torch_private.is_functional(aten.add_.Tensor) and not torch_private.is_functional(len)
    assert torch_private.is_traced_as_itself(aten.view.default) and not torch_private.is_traced_as_itself(aten.add_.Tensor)
    # Autograd decomposes both.
    assert not torch_private.is_traced_as_itself(aten.linear.default)
    assert not torch_private.is_traced_as_itself(aten.silu_backward.default)
    assert torch_private.arguments_of(aten.mul.Tensor) == ["self", "other"]
    # Its schema does not say that it writes to them.
    assert "running_mean" in torch_private.arguments_of(aten.native_batch_norm.default)
    assert torch_private.is_only_context(torch.ops.higher_order.wrap_with_set_grad_enabled)
    assert not torch_private.is_only_context(torch.ops.higher_order.cond)
    graph = fx.Graph()
    name = torch_private.traced_name(graph, aten.add.Tensor)
    assert graph.create_node("call_function", aten.add.Tensor, (1, 2), {}, name).name == "add"


def test_the_flat_graph_may_be_made_by_another() -> None:
    given, traced = [], joint()
    forward = exported()

    def make(inputs: Sequence[torch.Tensor]) -> fx.GraphModule | None:
        given.append(inputs)
        return None

    with torch_private.flat_graph_by(make):
        assert operators(joint().graph_module) == operators(traced.graph_module)
    assert [len(inputs) for inputs in given] == [len(forward.graph_signature.input_specs)]
    # test_flat.py makes one.
    with torch_private.flat_graph_by(lambda inputs: len(inputs)), pytest.raises(Exception, match="graph"):
        joint()


def test_a_stand_in_is_run_to_analyse_inputs() -> None:
    ran = []

    def stand_in(*inputs: torch.Tensor) -> list[torch.Tensor]:
        ran.append(len(inputs))
        return [next(one for one in inputs if one.requires_grad).sum()]

    with torch_private.inputs_analysed_by(stand_in):
        program = joint()
    assert ran == [len(program.graph_signature.input_specs)]
    assert operators(program.graph_module) == operators(joint().graph_module)
    with torch_private.inputs_analysed_by(None):
        assert operators(joint().graph_module) == operators(program.graph_module)


def test_what_another_version_lacks_is_not_replaced() -> None:
    owner = types.SimpleNamespace(one=1)
    with torch_private._replaced(owner, "one", lambda one: one + 1), torch_private._replaced(owner, "other", len):
        assert vars(owner) == {"one": 2}
    assert vars(owner) == {"one": 1}


def test_code_of_large_graphs_is_made_when_they_are_called() -> None:
    def traced(operations: int) -> fx.GraphModule:
        graph = fx.Graph()
        node = graph.placeholder("x")
        for _ in range(operations):
            node = graph.call_function(torch.neg, (node,))
        graph.output(node)
        return fx.GraphModule(nn.Module(), graph)

    with torch_private.without_code():
        small, large = traced(2), traced(301)
    assert "neg" in small.code and not hasattr(large, "_code")
    assert large(torch.ones(1)).item() == -1 and "neg" in large.code
    with torch_private.without_code():
        next(iter(calls_of(large.graph))).target = torch.abs
        large.recompile()
    assert large(-torch.ones(1)).item() == 1


def test_stacks_have_the_frames_that_traces_keep() -> None:
    def stacks() -> list[str]:
        return [node.meta["stack_trace"] for node in calls_of(exported().graph)]

    whole = stacks()
    with torch_private.stacks_of_forward():
        assert stacks() == whole
    assert Path(__file__).name in whole[0] and "in forward" in whole[0]


def test_results_are_described_once() -> None:
    assert all(node.meta["tensor_meta"] for node in calls_of(exported().graph))
    with torch_private.without_tensor_meta():
        nodes = calls_of(exported().graph)
    assert not any(node.meta["tensor_meta"] for node in nodes) and all("val" in node.meta for node in nodes)


def test_checkpoint_runs_by_the_generator_that_is_replaced() -> None:
    entered = []

    def wrap(original):
        def generator(*args: object, **kwargs: object):
            entered.append(len(args))
            yield from original(*args, **kwargs)

        return generator

    x = torch.ones(3, requires_grad=True)
    with torch_private.checkpointed_by(wrap):
        checkpoint(torch.sin, x, use_reentrant=False).sum().backward()
    assert len(entered) == 1 and torch.allclose(x.grad, x.detach().cos())
    checkpoint(torch.sin, x, use_reentrant=False)
    assert len(entered) == 1


def test_a_parametrization_writes_to_no_parameter() -> None:
    """Without it, registering one counts as a write to the parameter."""
    for context, writes in ((contextlib.nullcontext(), 1), (torch_private.no_write_of_itself(), 0)):
        linear = nn.Linear(2, 2)
        weight, before = linear.weight, linear.weight._version
        with context:
            parametrize.register_parametrization(linear, "weight", nn.Identity())
            parametrize.remove_parametrizations(linear, "weight", leave_parametrized=False)
        assert linear.weight is weight and weight._version - before == writes


def test_a_function_that_is_held_is_applied_by_another() -> None:
    class Negated(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.sin()

        @staticmethod
        def backward(context, gradient):
            return -gradient

    held, seen = Negated.apply, []

    def apply(function: type, *args: object) -> object:
        seen.append((function, args))
        return torch_private.apply_function(function, *args)

    x = torch.ones(3, requires_grad=True)
    with torch_private.functions_applied_by(apply):
        held(x).sum().backward()
    assert seen == [(Negated, (x,))] and torch.equal(x.grad, -torch.ones(3))
    held(x)
    assert len(seen) == 1


def test_writes_are_counted() -> None:
    x = torch.ones(3)
    before = torch_private.count_writes(x)
    x.sin()
    assert torch_private.count_writes(x) == before
    x.view(3, 1).mul_(2)
    assert torch_private.count_writes(x) == before + 1


def test_fake_tensors() -> None:
    mode, real = torch_private.new_fake_mode(), torch.ones(2)
    with mode:
        fake = torch.empty(2)
        assert torch_private.is_fake(fake + real)
    assert not torch_private.is_fake(real)
    assert torch_private.fake_mode_of([real, fake]) is mode
    assert torch_private.fake_mode_of([real]) is None


def test_names_of_operators() -> None:
    assert torch_private.operator_name(torch.ops.aten.add.Tensor) == "aten::add"
    assert torch_private.operator_name(len) == ""
    assert torch_private.is_higher_order(torch.ops.higher_order.cond)
    assert not torch_private.is_higher_order(torch.ops.aten.add.Tensor) and not torch_private.is_higher_order(len)


def test_arguments_that_are_written() -> None:
    aten = torch.ops.aten
    assert torch_private.mutated_arguments(aten.add_.Tensor, ("a", "b"), {}) == ["a"]
    assert torch_private.mutated_arguments(aten.add.out, ("a", "b"), {"out": "c"}) == ["c"]
    assert torch_private.mutated_arguments(aten.add.Tensor, ("a", "b"), {}) == []
    assert torch_private.mutated_arguments(max, ("a", "b"), {}) == []


def test_calls_are_watched_with_their_arguments() -> None:
    seen = []
    layer, x = nn.BatchNorm1d(2), torch.randn(3, 2)
    with torch_private.watched_calls(lambda *call: seen.append(call)):
        layer(x)
    (target, args, kwargs), = (call for call in seen if "batch_norm" in torch_private.operator_name(call[0]))
    given = torch_private.arguments_by_name(target, args, kwargs)
    # The schema does not say that these are written to.
    assert given["running_mean"] is layer.running_mean and given["running_var"] is layer.running_var and given["training"]
    assert torch_private.mutated_arguments(target, args, kwargs) == []


def test_views() -> None:
    aten = torch.ops.aten
    views = (aten.view.default, aten.split.Tensor, aten.add_.Tensor)
    assert all(torch_private.is_view(target) for target in views)
    assert not torch_private.is_view(aten.add.Tensor) and not torch_private.is_view(aten._unsafe_view.default)


def test_random_operators() -> None:
    assert torch_private.is_random(torch.ops.aten.rand.default) and torch_private.is_random(torch.ops.aten.dropout.default)
    assert not torch_private.is_random(torch.ops.aten.ones.default) and not torch_private.is_random(max)


def test_whether_distributions_check_values() -> None:
    before = torch_private.validates_distributions()
    try:
        for value in (False, True):
            torch.distributions.Distribution.set_default_validate_args(value)
            assert torch_private.validates_distributions() is value
    finally:
        torch.distributions.Distribution.set_default_validate_args(before)


def test_checks_of_matrices_are_no_effects() -> None:
    class Inverse(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.eye(2))

        def forward(self):
            return (torch.linalg.inv(self.weight).sum(),)

    forward = torch.export.export(Inverse(), (), strict=False)
    before = str(forward.run_decompositions().graph_signature)
    with torch_private.checks_of_matrices_as_operators():
        joint = torch_private.decompose_to_joint(forward, preserved=[])
    assert "aten::linalg_inv_ex" in operators(joint.graph_module) and "token" not in str(joint.graph_signature)
    assert str(forward.run_decompositions().graph_signature) == before


def test_hooks_on_gradients() -> None:
    x, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    assert torch_private.gradient_hooks(x) == []
    x.register_hook(torch.neg)
    x.register_post_accumulate_grad_hook(print)
    assert torch_private.gradient_hooks(x) == [torch.neg, print]
    torch_private.take_gradient_hooks(other, x)
    assert torch_private.gradient_hooks(other) == [torch.neg, print]


def test_nodes_that_a_program_holds() -> None:
    x, others = torch.ones(2, requires_grad=True), [torch.ones(2, requires_grad=True) for _ in range(3)]
    loss = (x * 2).sum()
    assert not torch_private.is_accumulator_held([x, *others])
    held = [x.view_as(x).grad_fn.next_functions[0][0]]
    assert torch_private.is_accumulator_held([*others, x]) and not torch_private.is_accumulator_held(others)
    held.clear()
    assert not torch_private.is_accumulator_held([x]) and loss.requires_grad


def test_backward_hooks_of_modules() -> None:
    layer = nn.Linear(2, 2)
    assert torch_private.backward_hooks(layer) == [] == torch_private.global_backward_hooks()
    layer.register_full_backward_hook(print)
    layer.register_full_backward_pre_hook(max)
    layer.register_forward_hook(lambda *_: None)
    assert torch_private.backward_hooks(layer) == [max, print]
    handle = nn.modules.module.register_module_full_backward_hook(print)
    assert torch_private.global_backward_hooks() == [print]
    handle.remove()


def test_all_gradients_come_from_one_function() -> None:
    code, seen = torch_private.engine_function().__code__, []

    def see(frame: types.FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is code:
            seen.append(frame.f_back.f_code.co_name)

    x = torch.ones(2, requires_grad=True)
    sys.setprofile(see)
    torch.autograd.grad(x.sum(), x)
    x.sum().backward()
    torch.func.grad(torch.sum)(x)
    sys.setprofile(None)
    assert seen == ["grad", "backward", "grad"]


def test_operators_are_run_by_a_function() -> None:
    seen = []

    def run(operator, args, kwargs):
        seen.append(torch_private.operator_name(operator))
        return operator(*args, **kwargs)

    with torch_private.operators_run_by(run):
        result = nn.functional.linear(torch.ones(1, 2), torch.ones(3, 2)).sin()
    assert seen[-2:] == ["aten::mm", "aten::sin"] and result.shape == (1, 3)
    torch.ones(2).cos()
    assert "aten::cos" not in seen


def test_tables_of_a_module() -> None:
    model = nn.Sequential(Loss())
    assert torch_private.module_table(model)["0"] is model[0]
    layer = model[0].layer
    other = nn.Parameter(torch.zeros(2, 3))
    torch_private.parameter_table(layer)["weight"] = other
    assert layer.weight is other
    torch_private.buffer_table(model[0])["scale"] = torch.zeros(2)
    assert torch.equal(model[0].scale, torch.zeros(2))
    twin = torch_private.with_own_tables(layer)
    torch_private.parameter_table(twin)["weight"] = nn.Parameter(torch.ones(2, 3))
    torch_private.buffer_table(twin)["more"] = torch.ones(1)
    torch_private.module_table(twin)["child"] = nn.Identity()
    assert layer.weight is other and twin.bias is layer.bias
    assert not torch_private.buffer_table(layer) and not torch_private.module_table(layer)


def test_trees() -> None:
    value = {"a": (torch.ones(1), None), "b": [torch.zeros(1)]}
    leaves, structure = torch_private.pytree.tree_flatten(value)
    assert leaves[0] is value["a"][0] and leaves[-1] is value["b"][0]
    assert structure == torch_private.pytree.tree_flatten({"a": (1, None), "b": [2]})[1]
    assert structure != torch_private.pytree.tree_flatten({"a": (1,), "b": [2]})[1]
    assert torch_private.pytree.tree_leaves((1, {"x": 2})) == [1, 2]
    assert torch_private.pytree.tree_map(lambda x: x + 1, (1, [2])) == (2, [3])
    assert torch_private.pytree.tree_map_only(int, lambda x: x + 1, (1, "a")) == (2, "a")


def test_each_function_has_a_test() -> None:
    """Each function of the module is used in a test of this file."""
    functions = [name for name, value in vars(torch_private).items() if inspect.isfunction(value)]
    own = [name for name in functions if getattr(torch_private, name).__module__ == torch_private.__name__]
    text = Path(__file__).read_text()
    assert len(own) >= 12 and [name for name in own if f"torch_private.{name}(" not in text] == []


def private_uses(source: str) -> list[str]:
    """Private names of PyTorch that a source uses, and the tables of modules."""
    tree = ast.parse(source)
    found, aliases = [], {"torch", "nn", "fx"}
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            aliases |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] == "torch"]
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            root = node.value
            while isinstance(root, ast.Attribute):
                root = root.value
            is_torchs = isinstance(root, ast.Name) and root.id in aliases
            is_table = node.attr in ("_parameters", "_modules", "_schema") and not isinstance(node.value, ast.Call)
            names = [f"torch.{node.attr}"] if is_torchs or is_table else []
        found += [name for name in names if any(part.startswith("_") for part in name.split("."))]
    return found


def test_the_search_finds_private_uses() -> None:
    assert private_uses("from torch._guards import detect_fake_mode")
    assert private_uses("from torch.utils import _pytree as pytree")
    assert private_uses("import torch\ntorch.utils._pytree.tree_map")
    assert private_uses("module._parameters['x'] = 1") and private_uses("import torch._dynamo")
    assert not private_uses("import torch\nself._names = torch.ones(1)\n_x = torch.__version__")


def test_no_other_module_uses_a_private_name() -> None:
    uses = {
        str(path.relative_to(PACKAGE)): found
        for path in PACKAGE.rglob("*.py")
        if path.name != "torch_private.py" and (found := private_uses(path.read_text()))
    }
    assert uses == {}
