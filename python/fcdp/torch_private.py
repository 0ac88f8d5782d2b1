# SPDX-License-Identifier: Apache-2.0
"""All private functions and attributes of PyTorch that fcdp uses. No other module of this package uses one.

test/python/test_torch_private.py tests what is expected of each, and scripts/test-torch runs it with other versions of
PyTorch. The modules of export are loaded when they are needed, since that takes seconds.
"""

import contextlib
import copy
import gc
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from torch import fx
    from torch.export import ExportedProgram

Trace = Callable[..., tuple[Callable[..., Any], Any, Any, Any]]
Table = dict[str, Any]

# Making the code of a smaller graph takes no time.
_LARGE_GRAPH = 200


def decompose_to_joint(forward: "ExportedProgram", preserved: Sequence[Any]) -> "ExportedProgram":
    """Returns the program with the gradients of its output 0. Nothing is decomposed, `preserved` included.

    These are composite operators that autograd decomposes and eager does not.
    """
    from torch._export.utils import _special_op_to_preserve_cia
    from torch.export.exported_program import _decompose_exported_program

    return _decompose_exported_program(
        forward,
        cia_to_decomp=dict.fromkeys(preserved, _special_op_to_preserve_cia),
        python_decomp_table={},
        joint_loss_index=0,
        decompose_custom_triton_ops=False,
    )


def copy_of(program: "ExportedProgram", join_detach: bool = False) -> "tuple[fx.GraphModule, Any]":
    """Returns copies of graph and signature. `join_detach`: of a detach of a detach, only one is left."""
    from torch.export.experimental import _copy_graph_module_and_signature, _remove_detach_pass

    with warnings.catch_warnings():
        # PyTorch warns of its own use of LeafSpec.
        warnings.filterwarnings("ignore", category=FutureWarning, message=".*LeafSpec")
        graph_module, signature = _copy_graph_module_and_signature(program)
    if join_detach:
        _remove_detach_pass(graph_module, signature)
    return graph_module, signature


def save_program(program: "ExportedProgram", path: Path, extra_files: dict[str, str]) -> None:
    """Does what torch.export.save does, except for its test that the program has a canonical form, whose result it
    drops.

    That test takes a third of the time. The text of the graph, for a log of PyTorch's developers, is not made, either.
    """
    from torch._export.serde import serialize
    from torch.fx import GraphModule

    canonicalize, print_readable = serialize.canonicalize, GraphModule.print_readable
    serialize.canonicalize = lambda program, constants: program
    GraphModule.print_readable = lambda *args, **options: ""
    try:
        torch.export.save(program, path, extra_files=extra_files)
    finally:
        serialize.canonicalize, GraphModule.print_readable = canonicalize, print_readable


def with_graph(program: "ExportedProgram", graph_module: "fx.GraphModule", signature: Any) -> "ExportedProgram":
    """Returns the program with another graph and signature."""
    return program._update(graph_module, signature)


@contextlib.contextmanager
def traced_by(wrap: Callable[[Trace], Trace]) -> Iterator[None]:
    """Has export trace by `wrap` of the function that does it, until the context ends.

    The function returns the traced graph module, metadata and two structures. If `wrap` returns something else in place
    of the graph module, it is traced again.
    """
    from torch._functorch import aot_autograd

    original = aot_autograd._aot_export_function
    aot_autograd._aot_export_function = wrap(original)
    try:
        yield
    finally:
        aot_autograd._aot_export_function = original


@contextlib.contextmanager
def _replaced(owner: Any, name: str, wrap: Callable[[Any], Any]) -> Iterator[None]:
    """Replaces an attribute by `wrap` of it until the context ends.

    An owner without the attribute, in another version of PyTorch, stays as it is: exports take longer with it.
    """
    original = getattr(owner, name, None)
    if original is None:
        yield
        return
    setattr(owner, name, wrap(original))
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextlib.contextmanager
def without_code() -> Iterator[None]:
    """Has large graph modules make their Python code when they are called, until the context ends.

    Passes of export make it anew after each change, and interpret the graph.
    """
    from torch.fx import GraphModule
    from torch.fx.graph import _PyTreeCodeGen

    recompile = GraphModule.recompile

    def recompile_later(module: "fx.GraphModule") -> Any:
        graph = module.graph
        if len(graph.nodes) < _LARGE_GRAPH:
            return recompile(module)
        if isinstance(graph._codegen, _PyTreeCodeGen):
            module._in_spec, module._out_spec = graph._codegen.pytree_info.in_spec, graph._codegen.pytree_info.out_spec
        module._recompile_submodules()

        def forward(called: "fx.GraphModule", *args: Any, **kwargs: Any) -> Any:
            recompile(called)
            return called.forward(*args, **kwargs)

        type(module).forward = forward
        return None

    GraphModule.recompile = recompile_later
    try:
        yield
    finally:
        GraphModule.recompile = recompile


class _ForwardFrames:
    """Gives those frames of a call stack that traces keep in the metadata of nodes: the methods `forward`."""

    _known: dict[tuple[str, int, str], traceback.FrameSummary] = {}

    def __init__(self, frames: list[traceback.FrameSummary]) -> None:
        self._frames = frames

    @classmethod
    def extract(cls) -> "_ForwardFrames":
        from torch.fx import proxy

        anchors = getattr(proxy, "_STACK_TRACE_ANCHORS", ())
        found = []
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None:
            name, file = frame.f_code.co_name, frame.f_code.co_filename
            if name == "forward" or (file, name) in anchors or file.endswith("torch/__init__.py"):
                key = (file, frame.f_lineno, name)
                if key not in cls._known:
                    cls._known[key] = traceback.FrameSummary(*key)
                found.append(cls._known[key])
            frame = frame.f_back
        return cls(found[::-1])

    def summary(self) -> traceback.StackSummary:
        return traceback.StackSummary.from_list(self._frames)


@contextlib.contextmanager
def stacks_of_forward() -> Iterator[None]:
    """Has traces look only at the frames of a stack that they keep, until the context ends: the others take most time.
    """
    from torch.fx import proxy

    with _replaced(proxy, "CapturedTraceback", lambda _: _ForwardFrames):
        try:
            yield
        finally:
            _ForwardFrames._known.clear()


@contextlib.contextmanager
def without_tensor_meta() -> Iterator[None]:
    """Has traces leave out the older description of results, which "val" replaces, until the context ends."""
    from torch.fx.experimental import proxy_tensor

    with _replaced(proxy_tensor, "_extract_tensor_metadata", lambda _: lambda result: None):
        yield


@contextlib.contextmanager
def inputs_analysed_by(stand_in: Callable[..., Any] | None) -> Iterator[None]:
    """Has export run `stand_in` in place of the forward pass, to see what a pass does to its inputs and returns.

    With None, it runs the forward pass.
    """
    from torch._functorch import aot_autograd

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda function, **options: original(stand_in or function, **options)

    with _replaced(aot_autograd, "run_functionalized_fw_and_collect_metadata", wrap):
        yield


def is_only_context(target: Any) -> bool:
    """Returns whether a higher-order operator runs its graph as it is, with another state of autograd or autocast."""
    operators = torch.ops.higher_order
    return target in (operators.wrap_with_set_grad_enabled, operators.wrap_with_autocast)


@contextlib.contextmanager
def flat_graph_by(make: "Callable[[Sequence[Any]], fx.GraphModule | None]") -> Iterator[None]:
    """Has export take the flat joint graph from `make`, until the context ends, or trace it if that returns None.

    Export traces the joint graph twice: the second trace flattens the inputs and outputs of the first one. `make` takes
    the flat inputs. The outputs of the graph are those of the forward pass, and the gradients of the inputs that
    require one.
    """
    from torch._functorch import aot_autograd

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def make_fx(function: Any, **options: Any) -> Callable[..., Any]:
            return lambda *args: made if (made := make(args)) is not None else original(function, **options)(*args)

        return make_fx

    with _replaced(aot_autograd, "make_fx", wrap):
        yield


def is_functional(target: Any) -> bool:
    """Returns whether it is an operator of PyTorch whose schema says that it writes to none of its arguments."""
    return is_pytorchs(target) and not target._schema.is_mutable


def is_pytorchs(target: Any) -> bool:
    """Returns whether it is an operator of PyTorch's own library."""
    return isinstance(target, torch._ops.OpOverload) and target.namespace == "aten"


def arguments_of(target: Any) -> list[str]:
    """Returns the names of an operator's arguments."""
    return [argument.name for argument in target._schema.arguments]


def is_traced_as_itself(target: Any) -> bool:
    """Returns whether a trace of a call of a recorded operator of PyTorch records the same call, and no other ones.

    Operators that autograd decomposes are not.
    """
    return is_functional(target) and not torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeImplicitAutograd")


def traced_name(graph: "fx.Graph", target: Any) -> str:
    """Returns the name that a trace asks for, for the node of a call of an operator."""
    return graph._target_to_str(target.overloadpacket.__name__)


@contextlib.contextmanager
def no_write_of_itself() -> Iterator[None]:
    """Until the context ends, nn.utils.parametrize does not set a parameter to itself, which counts as a write to it.

    PEFT registers and removes parametrizations in each forward pass.
    """
    from torch.nn.utils import parametrize

    original = parametrize._maybe_set
    parametrize._maybe_set = lambda one, other: None if one is other else original(one, other)
    try:
        yield
    finally:
        parametrize._maybe_set = original


@contextlib.contextmanager
def checkpointed_by(wrap: Callable[[Callable[..., Iterator[None]]], Callable[..., Iterator[None]]]) -> Iterator[None]:
    """Has torch.utils.checkpoint, without reentrance, run by `wrap` of its generator until the context ends.

    The generator is replaced, because models hold the function itself (Transformers binds it).
    """
    from torch.utils import checkpoint

    name = "_checkpoint_without_reentrant_generator"
    if hasattr(checkpoint, f"{name}_impl"):
        name = f"{name}_impl"  # since PyTorch 2.15, where the other one is for programs that call it
    original = getattr(checkpoint, name)
    setattr(checkpoint, name, wrap(original))
    try:
        yield
    finally:
        setattr(checkpoint, name, original)


@contextlib.contextmanager
def functions_applied_by(apply: Callable[..., Any]) -> Iterator[None]:
    """Has `apply(function, *args)` run what calls a torch.autograd.Function until the context ends.

    A method that every Function inherits is replaced, because models hold `Function.apply` itself, which calls it.
    """
    from torch.autograd.function import _SingleLevelFunction

    _SingleLevelFunction.apply = classmethod(apply)
    try:
        yield
    finally:
        del _SingleLevelFunction.apply


def apply_function(function: type[torch.autograd.Function], *args: Any) -> Any:
    """Calls a Function as PyTorch does, within `functions_applied_by`, too."""
    from torch.autograd.function import _SingleLevelFunction

    return super(_SingleLevelFunction, function).apply(*args)


def count_writes(tensor: torch.Tensor) -> int:
    """Returns how often the memory of the tensor was written to, where it was made included."""
    return tensor._version


def fake_mode_of(tensors: Sequence[torch.Tensor]) -> Any:
    """Returns the FakeTensorMode that tensors were made under, or None if they have values."""
    from torch._guards import detect_fake_mode

    return detect_fake_mode(list(tensors))


def new_fake_mode() -> Any:
    """Returns a FakeTensorMode in which real tensors may be used."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


def is_fake(tensor: torch.Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)


def operator_name(target: Any) -> str:
    """Returns "aten::add" for an operator, and "" for another function."""
    return getattr(getattr(target, "_schema", None), "name", "")


def is_higher_order(target: Any) -> bool:
    """Returns whether it is an operator that takes graphs, such as torch.cond."""
    return isinstance(target, torch._ops.HigherOrderOperator)


def mutated_arguments(target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """Returns the arguments of a call that its operator writes to. Other functions write to none."""
    schema = getattr(target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    given = arguments_by_name(target, args, kwargs)
    written = [argument.name for argument in schema.arguments if argument.alias_info and argument.alias_info.is_write]
    return pytree.tree_leaves([given[name] for name in written if name in given])


def is_view(target: Any) -> bool:
    """Returns whether results of an operator are in the memory of its arguments."""
    return any(result.alias_info for result in target._schema.returns)


def arguments_by_name(target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns the given arguments of a call of an operator by the names of its schema."""
    return dict(zip((argument.name for argument in target._schema.arguments), args)) | kwargs


@contextlib.contextmanager
def watched_calls(see: Callable[[Any, Sequence[Any], dict[str, Any]], None]) -> Iterator[None]:
    """Has `see(operator, args, kwargs)` called for each operator that this thread runs, until the context ends."""

    def run(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        see(operator, args, kwargs)
        return operator(*args, **kwargs)

    with operators_run_by(run):
        yield


def asks_for_metadata(target: Any) -> bool:
    """Returns whether an operator tells the device, the layout or sizes of a tensor, and computes none."""
    return getattr(target, "namespace", "") == "prim"


def is_random(target: Any) -> bool:
    """Returns whether an operator draws random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


@contextlib.contextmanager
def checks_of_matrices_as_operators() -> Iterator[None]:
    """Has tracing record the checks of torch.linalg.solve, inv and cholesky as operators until the context ends.

    PyTorch records them as effects, for which its joint graphs of forward and backward pass have no place.
    """
    from torch._library.simple_registry import singleton

    holder = singleton.find("aten::_linalg_check_errors").effect
    effect = holder.effect
    holder.register(None)
    try:
        yield
    finally:
        holder.register(effect)


def gradient_hooks(tensor: torch.Tensor) -> list[Callable[..., Any]]:
    """Returns the hooks that were registered on the gradient of a tensor, and on its accumulation."""
    return [*(tensor._backward_hooks or {}).values(), *(tensor._post_accumulate_grad_hooks or {}).values()]


def take_gradient_hooks(tensor: torch.Tensor, source: torch.Tensor) -> None:
    """Gives a tensor the hooks of another one."""
    for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
        if getattr(source, name):
            setattr(tensor, name, getattr(source, name))


def is_accumulator_held(parameters: Sequence[torch.Tensor]) -> bool:
    """Returns whether a program holds a node that accumulates the gradient of a parameter, as it must for a hook on it.

    The hooks of a node cannot be read.
    """
    with torch.enable_grad():
        nodes = [parameter.view_as(parameter).grad_fn.next_functions[0][0] for parameter in parameters]
    # A graph that is alive holds nodes, too, which is seen only here: by the list, the loop, and the call.
    nodes = [node for node in nodes if sys.getrefcount(node) > 3]
    return any(not isinstance(holder, types.FrameType) and holder is not nodes for holder in gc.get_referrers(*nodes))


def backward_hooks(module: nn.Module) -> list[Callable[..., Any]]:
    """Returns the hooks on the gradients of a module's inputs and outputs."""
    return [*module._backward_pre_hooks.values(), *module._backward_hooks.values()]


def global_backward_hooks() -> list[Callable[..., Any]]:
    """Returns those that are registered for all modules."""
    from torch.nn.modules import module

    return [*module._global_backward_pre_hooks.values(), *module._global_backward_hooks.values()]


def engine_function() -> Callable[..., Any]:
    """Returns the function by which each computation of gradients calls autograd's engine."""
    return torch.autograd._engine_run_backward


@contextlib.contextmanager
def operators_run_by(run: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]) -> Iterator[None]:
    """Has `run(operator, args, kwargs)` call each operator below autograd, until the context ends."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        supports_higher_order_operators = True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return run(func, args, kwargs or {})

    with Mode():
        yield


def validates_distributions() -> bool:
    """Returns whether torch.distributions checks the values of what it is given."""
    return torch.distributions.Distribution._validate_args


def parameter_table(module: nn.Module) -> Table:
    """Returns the module's own parameters by name. Setting an entry does not register the parameter again."""
    return module._parameters


def buffer_table(module: nn.Module) -> Table:
    return module._buffers


def module_table(module: nn.Module) -> Table:
    return module._modules


def with_own_tables(module: nn.Module) -> nn.Module:
    """Returns a shallow copy whose tables can be changed without changing those of `module`."""
    twin = copy.copy(module)
    for table in ("_parameters", "_buffers", "_modules"):
        twin.__dict__[table] = dict(module.__dict__[table])
    return twin
