# SPDX-License-Identifier: Apache-2.0
"""Puts a unit without the rest of its model, or a model without its units, in the place of a model."""

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from fcdp.attributes import restore
from fcdp.call import replaced_forward
from fcdp.torch_private import buffer_table, module_table, parameter_table, pytree
from fcdp.unit_calls import Like, UnitCall


class Alone(nn.Module):
    """Calls a unit as the model did, and returns a loss of all its results.

    Arguments with a gradient are parameters.
    """

    def __init__(self, unit: nn.Module, call: UnitCall, generator: torch.Generator):
        super().__init__()
        self.unit, self._call = unit, call
        # Something is trained, though nothing of the unit may be.
        self.factor = nn.Parameter(torch.ones(()))
        leaves, self._spec = pytree.tree_flatten((call.args, call.kwargs))
        restore(call.contents)
        self._given = [leaf.random(generator) if isinstance(leaf, Like) else leaf for leaf in leaves]
        self._trained = [isinstance(leaf, Like) and leaf.is_trainable for leaf in leaves]
        trained = [nn.Parameter(given) for given, is_trained in zip(self._given, self._trained) if is_trained]
        self.arguments = nn.ParameterList(trained)
        self._used = [isinstance(like, Like) and like.is_used for like in pytree.tree_leaves(call.results)]
        for index, like in enumerate(pytree.tree_leaves(call.results)):
            if isinstance(like, Like) and like.dtype.is_floating_point:
                self.register_buffer(f"weight_{index}", torch.randn(like.shape, generator=generator), persistent=False)

    def example(self) -> tuple[torch.Tensor, ...]:
        given = zip(self._given, self._trained)
        return (torch.ones(()), *(leaf for leaf, is_trained in given if isinstance(leaf, torch.Tensor) and not is_trained))

    def forward(self, one: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        trained, inputs = iter(self.arguments), iter(others)
        leaves = [
            next(trained).clone() if is_trained else next(inputs) if isinstance(leaf, torch.Tensor) else leaf
            for leaf, is_trained in zip(self._given, self._trained)
        ]
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        with self._call.context():
            results = self.unit(*args, **kwargs)
        used = [(i, leaf) for i, leaf in enumerate(pytree.tree_leaves(results)) if self._used[i]]
        floats = [(i, leaf) for i, leaf in used if leaf.is_floating_point()]
        return one * self.factor * sum((leaf.float() * self.get_buffer(f"weight_{i}")).mean() for i, leaf in floats)


@contextlib.contextmanager
def stubbed(
    module: nn.Module, calls: list[UnitCall], generator: torch.Generator, reads_masks: bool
) -> Iterator[None]:
    """Has a module return random results of the recorded shapes, which depend on its arguments and on one parameter."""
    rows = [
        pytree.tree_map_only(Like, lambda like: Like(like.shape[-1:], like.dtype, False).random(generator), call.results)
        for call in calls
    ]
    own_parameters = {"scale": nn.Parameter(torch.ones(()))}
    # A model that counts nothing must not count its stubs' calls, either.
    numbers = itertools.cycle(range(len(calls))) if len({repr(call) for call in calls}) > 1 else itertools.repeat(0)

    def forward(*args: Any, **kwargs: Any) -> Any:
        number = next(numbers)
        call, row = calls[number], rows[number]
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        leaves = [leaf for leaf in tensors if reads_masks or leaf.dtype is not torch.bool]
        pull = module.scale + sum(_pull(leaf) for leaf in leaves)

        def result(like: Any, values: Any) -> Any:
            if not isinstance(like, Like):
                return like
            if not like.is_trainable:
                return values.expand(like.shape).clone()
            return (values.expand(like.shape) * pull).to(like.dtype)

        return pytree.tree_map(result, call.results, row)

    with contextlib.ExitStack() as stack:
        for table, own in ((parameter_table, own_parameters), (buffer_table, {}), (module_table, {})):
            stack.enter_context(_emptied(table(module), own))
        with replaced_forward(module, forward):
            yield


def _pull(leaf: torch.Tensor) -> torch.Tensor:
    """Returns a number that depends on a tensor, but for one that eager PyTorch may not have, as a mask may be left
    out.
    """
    if leaf.is_floating_point():
        return leaf.float().clamp(-1, 1).mean()
    return torch.zeros_like(leaf, dtype=torch.float32).mean()


@contextlib.contextmanager
def _emptied(table: dict[str, Any], own: dict[str, Any]) -> Iterator[None]:
    before = dict(table)
    table.clear()
    table.update(own)
    try:
        yield
    finally:
        table.clear()
        table.update(before)
