# SPDX-License-Identifier: Apache-2.0
"""Records how a model calls its units, with shapes and without values, and makes random tensors like those."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fcdp.attributes import contents_of
from fcdp.call import Call
from fcdp.eager import nodes_of, passes
from fcdp.torch_private import is_fake, pytree


@dataclass(frozen=True)
class Like:
    """Stands for a tensor. `is_used`: false for a result whose gradient nothing needs.

    `order`: its dimensions from the outermost in memory to the innermost, by which PyTorch chooses operators.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    requires_grad: bool
    is_used: bool = True
    order: tuple[int, ...] = ()

    @property
    def nbytes(self) -> int:
        return torch.Size(self.shape).numel() * self.dtype.itemsize

    @property
    def is_trainable(self) -> bool:
        return self.requires_grad and self.dtype.is_floating_point

    def random(self, generator: torch.Generator) -> torch.Tensor:
        """Returns values around 0, indices that are 0, or a mask that hides nothing: they are valid anywhere."""
        order = self.order or tuple(range(len(self.shape)))
        shape = [self.shape[dim] for dim in order]
        if self.dtype.is_floating_point or self.dtype.is_complex:
            made = torch.randn(shape, generator=generator).to(self.dtype)
        else:
            made = (torch.ones if self.dtype is torch.bool else torch.zeros)(shape, dtype=self.dtype)
        return made.permute([order.index(dim) for dim in range(len(order))])


@dataclass(frozen=True, repr=False)
class UnitCall:
    """The arguments and the results of a call of a module, with `Like` in place of tensors, and the state of autocast.

    `contents` is what arguments of other types held before the call, such as the cache of keys of Transformers.
    """

    args: Any
    kwargs: Any
    results: Any
    autocast: torch.dtype | None
    grad: bool
    contents: list[tuple[Any, Any]]

    def __repr__(self) -> str:
        """Calls that are alike have one text.

        An argument that is a module, as of DoRA, may lack its parameters by now.
        """
        given = self.args, self.kwargs, self.results
        values = pytree.tree_map_only(nn.Module, lambda module: f"a {type(module).__name__}", given)
        return f"{values} {self.autocast} {self.grad}"

    @contextlib.contextmanager
    def context(self) -> Iterator[None]:
        """Has autocast and the recording of gradients as they were."""
        with contextlib.ExitStack() as stack:
            if self.autocast is not None:
                stack.enter_context(torch.autocast("cpu", self.autocast))
            if not self.grad:
                stack.enter_context(torch.no_grad())
            yield


def record_calls(model: nn.Module, call: Call, paths: Sequence[str]) -> dict[str, list[UnitCall]]:
    """Runs a forward pass of a model without values. Returns the calls of the modules at `paths`, in order."""
    calls: dict[str, list[_Recorded]] = {path: [] for path in paths}
    with contextlib.ExitStack() as stack:
        for path in paths:
            stack.enter_context(_recorded(model.get_submodule(path), calls[path]))
        loss = stack.enter_context(passes(model, call))()
    used = nodes_of(loss)
    return {path: [recorded.call(used) for recorded in of_path] for path, of_path in calls.items()}


@dataclass
class _Recorded:
    """A call of a module, whose results are tensors without values."""

    given: Any
    autocast: torch.dtype | None
    grad: bool
    contents: list[tuple[Any, Any]]
    results: Any = None

    def call(self, used: set[Any]) -> UnitCall:
        def like(tensor: torch.Tensor) -> Like:
            is_used = not tensor.requires_grad or tensor.grad_fn in used
            return Like(tuple(tensor.shape), tensor.dtype, tensor.requires_grad, is_used)

        results = pytree.tree_map_only(torch.Tensor, like, self.results)
        return UnitCall(*self.given, results, self.autocast, self.grad, self.contents)


@contextlib.contextmanager
def _recorded(module: nn.Module, calls: list[_Recorded]) -> Iterator[None]:
    def before(_: nn.Module, args: Any, kwargs: Any) -> None:
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        others = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if not isinstance(leaf, (torch.Tensor, nn.Module))]
        calls.append(_Recorded(_likes((args, kwargs)), dtype, torch.is_grad_enabled(), contents_of(others)))

    def after(_: nn.Module, args: Any, kwargs: Any, results: Any) -> None:
        last = next(recorded for recorded in reversed(calls) if recorded.results is None)
        last.results = results

    # The module's own hooks run on what these see.
    handles = [
        module.register_forward_pre_hook(before, prepend=True, with_kwargs=True),
        module.register_forward_hook(after, prepend=True, with_kwargs=True),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _likes(values: Any) -> Any:
    def like(tensor: torch.Tensor) -> Like:
        order = tuple(sorted(range(tensor.dim()), key=tensor.stride, reverse=True))
        return Like(tuple(tensor.shape), tensor.dtype, tensor.requires_grad, order=order)

    return pytree.tree_map_only(torch.Tensor, like, values)


def random_weight(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor | None:
    """Returns random values of the order of those of a trained model in place of a parameter without any."""
    if not isinstance(tensor, nn.Parameter) or not is_fake(tensor):
        return None
    drawn = torch.randn(tensor.shape, generator=generator)
    drawn = drawn / max(tensor.shape[-1], 1) ** 0.5 if tensor.dim() > 1 else 1 + drawn / 8
    return nn.Parameter(drawn.to(tensor.dtype), tensor.requires_grad)
