# SPDX-License-Identifier: Apache-2.0
"""A program is the same without the parts of PyTorch's tracing that an export leaves out."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.utils.checkpoint import checkpoint

from fcdp import exporter, flat, joint
from fcdp.call import make_call
from fcdp.stand_in import stand_in_of
from fcdp.torch_private import pytree
from small_models import BatchNorm, Tiny, tiny_inputs

ROWS = (torch.randn(4, 6),)
ROWS_OF_FOUR = (torch.randn(4, 4),)


class Model(nn.Module):
    """A layer, and a function of it that gives the loss."""

    def __init__(self, function: Callable[[nn.Module, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.register_buffer("seen", torch.zeros(6))
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return 2 * gradient


def counting(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    model.seen.add_(x.mean(0))
    return (model.layer(x) * model.seen).square().mean()


def in_place(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    y = model.layer(x)
    y[0] = 1
    return y.relu_().square().mean()


def without_gradients(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        scale = x.softmax(-1)
    with torch.autocast("cpu", torch.bfloat16):
        y = model.layer(x)
    return (y * scale).float().square().mean()


# By name: what is exported, whether it has a stand-in, and whether its flat graph is made of the first trace.
MODELS: dict[str, tuple[Callable[[], nn.Module], bool, bool]] = {
    "attention": (Tiny, True, True),
    "statistics": (BatchNorm, False, True),
    "several results": (lambda: Model(lambda m, x: sum(part.exp().sum() for part in m.layer(x).split(2))), True, True),
    "read in part": (lambda: Model(lambda m, x: m.layer(x).sort(dim=-1)[0].topk(2)[0].sum()), True, True),
    "dropout": (lambda: Model(lambda m, x: F.dropout(m.layer(x), 0.5).tanh().sum()), True, True),
    "context": (lambda: Model(without_gradients), True, True),
    "checkpoint": (lambda: Model(lambda m, x: checkpoint(m.layer, x, use_reentrant=False).sigmoid().sum()), True, True),
    "a constant": (lambda: Model(lambda m, x: (m.layer(x) * torch.tensor([2.0])).square().sum()), False, True),
    "a changed buffer": (lambda: Model(counting), False, True),
    "in place": (lambda: Model(in_place), False, False),
    "a view": (lambda: Model(lambda m, x: m.layer(x).sum(0).sum(0, keepdim=True)[0]), False, True),
    "a function": (lambda: Model(lambda m, x: Doubled.apply(m.layer(x)).square().sum()), False, True),
}


def described(program: torch.export.ExportedProgram) -> list[Any]:
    """Describes each node: its operator, arguments, results, strides and label. Arguments are named by their place."""
    places = {node: index for index, node in enumerate(program.graph.nodes)}

    def result(node: fx.Node) -> Any:
        values = pytree.tree_leaves(node.meta.get("val"))
        return [(one.shape, one.stride(), one.dtype, one.requires_grad) for one in values if isinstance(one, torch.Tensor)]

    return [
        (
            node.op,
            str(node.target) if node.op == "call_function" else node.name,
            fx.map_arg((node.args, node.kwargs), lambda one: places[one]),
            result(node),
            node.meta.get("custom"),
        )
        for node in program.graph.nodes
    ]


def traced(make: Callable[[], nn.Module], inputs: tuple[torch.Tensor, ...]) -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    model = make()
    return exporter._trace(model, make_call(model, inputs, None))


@pytest.mark.parametrize("name", MODELS)
def test_the_program_is_that_of_the_whole_trace(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, has_stand_in, is_flattened = MODELS[name]
    inputs = ROWS if issubclass(type(make()), Model) else ROWS_OF_FOUR if make is BatchNorm else tiny_inputs()
    stand_ins, flat_graphs = [], []

    def stand_in(forward: torch.export.ExportedProgram) -> Any:
        stand_ins.append(stand_in_of(forward))
        return stand_ins[0]

    def flat_graph(graph: fx.Graph, given: Any) -> fx.GraphModule | None:
        flat_graphs.append(made(graph, given))
        return flat_graphs[0]

    made = flat._flat_graph
    with monkeypatch.context() as patch:
        patch.setattr(joint, "stand_in_of", stand_in)
        patch.setattr(flat, "_flat_graph", flat_graph)
        short = traced(make, inputs)
    assert ([one is not None for one in stand_ins], [one is not None for one in flat_graphs]) == (
        [has_stand_in],
        [is_flattened],
    )
    monkeypatch.setattr(joint, "stand_in_of", lambda forward: None)
    monkeypatch.setattr(flat, "_flat_graph", lambda graph, given: None)
    whole = traced(make, inputs)
    assert described(short) == described(whole)
    for specs in ("input_specs", "output_specs"):
        one, other = ([(spec.kind, spec.target) for spec in getattr(p.graph_signature, specs)] for p in (short, whole))
        assert one == other
