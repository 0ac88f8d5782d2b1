# SPDX-License-Identifier: Apache-2.0
"""Calls operators of libtorch with different values of the same shapes in a pool that replays the memory of the first
call.

Operators and values come from the samples of PyTorch's own tests, forward and backward. An operator's allocations
may depend on values; its results must not. To call all, which takes minutes:

    .venv/bin/python test/python/operator_walk.py [NAME...]
"""

import itertools
import os
import sys
import types
import unittest
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

ROOT = Path(__file__).resolve().parents[2]
# Most samples of an operator from PyTorch's tests, and most calls of one operator in all of them.
MOST_SAMPLES, MOST_CALLS = 8, 4
# Most bytes of a call's tensors: the pool has two MiB.
MOST_BYTES = 1 << 16


@dataclass
class Called:
    """A call of an operator, by the values of its arguments."""

    operator: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self) -> Any:
        torch.manual_seed(0)
        return self.operator(*self.args, **self.kwargs)

    def changed(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "Called":
        def one(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            # Strides decide what an operator allocates, too.
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(change(value))

        return Called(self.operator, tree_map(one, self.args), tree_map(one, self.kwargs))


@dataclass
class Outcome:
    """The steps of a call: whether one allocated otherwise than the first, and what was wrong."""

    steps: int = 0
    differs: bool = False
    wrong: list[str] = field(default_factory=list)


class _Recorder(TorchDispatchMode):
    """Takes down the calls of operators whose only effect is their results."""

    def __init__(self, found: dict[str, list[Called]], names: set[str] | None) -> None:
        super().__init__()
        self.found, self.names = found, names

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = str(operator)
        calls = self.found.setdefault(name, []) if self.names is None or name in self.names else None
        if calls is not None and len(calls) < MOST_CALLS and _is_functional(operator):
            tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            if all(_is_plain(tensor) for tensor in tensors) and _bytes(tensors) <= MOST_BYTES:
                calls.append(_copied(Called(operator, args, kwargs)))
        return operator(*args, **kwargs)


def _copied(call: Called) -> Called:
    def one(value: Any) -> Any:
        return value.detach().clone() if isinstance(value, torch.Tensor) else value

    return Called(call.operator, tree_map(one, call.args), tree_map(one, call.kwargs))


def _is_functional(operator: Any) -> bool:
    schema = operator._schema
    has_tensors = any("Tensor" in str(value.type) for value in schema.returns)
    return schema.name.startswith("aten::") and not schema.is_mutable and has_tensors


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and not tensor.is_quantized and tensor.device.type == "cpu"


def _bytes(tensors: list[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def op_infos() -> list[Any]:
    # PyTorch's tests import a package for their own assertions, which samples do without.
    if "expecttest" not in sys.modules:
        stub = types.ModuleType("expecttest")
        stub.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stub
    from torch.testing._internal.common_methods_invocations import op_db

    return op_db


def recorded_calls(names: set[str] | None = None, of_samples: set[str] | None = None) -> dict[str, list[Called]]:
    """Returns calls by operator; of `names`, in the samples of `of_samples`, or all."""
    found: dict[str, list[Called]] = {}
    for info in op_infos():
        if of_samples is not None and info.name not in of_samples:
            continue
        for dtype in (torch.float32, torch.int64, torch.bool):
            if dtype not in info.dtypes:
                continue
            torch.manual_seed(0)
            needs_gradient = dtype == torch.float32 and info.supports_autograd
            try:
                samples = list(itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=needs_gradient), MOST_SAMPLES))
            except Exception:
                continue  # They need what is not here, such as SciPy.
            for sample in samples:
                with _Recorder(found, names):
                    _run(info, sample)
            break
    return {name: calls for name, calls in found.items() if calls}


def _run(info: Any, sample: Any) -> None:
    try:
        results = tree_leaves(info(sample.input, *sample.args, **sample.kwargs))
        trained = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
        if trained:
            torch.autograd.backward(trained, [torch.ones_like(r) for r in trained])
    except Exception:
        pass  # A sample that this build does not support.


def variants(call: Called) -> Iterator[Called]:
    """Returns the call with other values of the same shapes. Some may be none that the operator takes."""
    generator = torch.Generator().manual_seed(1)

    def of_floats(make: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda tensor: make(tensor) if tensor.is_floating_point() or tensor.is_complex() else tensor

    def of_bools(make: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda tensor: make(tensor) if tensor.dtype == torch.bool else tensor

    def of_integers(make: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
        is_integer = lambda t: not (t.is_floating_point() or t.is_complex() or t.dtype == torch.bool)
        return lambda tensor: make(tensor) if is_integer(tensor) else tensor

    changes = [
        of_bools(torch.zeros_like),
        of_bools(torch.ones_like),
        of_bools(torch.logical_not),
        of_integers(torch.zeros_like),
        of_integers(lambda t: t.flip(list(range(t.dim())))),
        of_integers(torch.ones_like),
        of_floats(torch.zeros_like),
        of_floats(torch.ones_like),
        of_floats(lambda t: t * 1e-3),
        of_floats(lambda t: t * 50),
        of_floats(lambda t: -t),
        of_floats(lambda t: torch.randn(t.shape, generator=generator).to(t.dtype)),
        of_floats(lambda t: torch.full_like(t, float("nan"))),
        lambda t: t.clone(),
    ]
    for change in changes:
        yield call.changed(change)


def tensors_of(results: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(results) if isinstance(leaf, torch.Tensor)]


def check(call: Called) -> Outcome:
    """Runs a step for each variant, and compares the results with the operator's outside of the pool."""
    outcome = Outcome()
    pool = torch.classes.fcdp_test.OperatorPool()
    for variant in (call, *variants(call)):
        try:
            expected = [tensor.clone() for tensor in tensors_of(variant.run())]
        except Exception:
            continue
        if not all(_is_plain(tensor) for tensor in expected) or _bytes(expected) > MOST_BYTES:
            continue
        try:
            _step(pool, variant, expected, outcome)
        except RuntimeError as error:
            outcome.wrong.append(f"step {outcome.steps}: {variant.operator}: {error}")
            break
    return outcome


def _step(pool: Any, variant: Called, expected: list[torch.Tensor], outcome: Outcome) -> None:
    pool.begin()
    results = tensors_of(variant.run())
    is_exact = pool.overwrite(results)
    asked = pool.end()
    if outcome.steps > 0:
        outcome.differs |= not is_exact or asked > 0
    # Empty memory has any value.
    if "empty" not in str(variant.operator):
        outcome.wrong += [f"step {outcome.steps}: {variant.operator}: {text}" for text in _differences(results, expected)]
    # Nothing may hold them when the step ends.
    del results
    pool.finish()
    outcome.steps += 1


def _differences(results: list[torch.Tensor], expected: list[torch.Tensor]) -> list[str]:
    pairs = zip(results, expected)
    return [f"{result} instead of {value}" for result, value in pairs if not _are_equal(result, value)]


def _are_equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Libraries may round as memory is aligned."""
    return torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


def load_pool() -> None:
    folder = Path(os.environ.get("FCDP_BUILD", ROOT / "build"))
    torch.classes.load_library(str(folder / "lib" / "libfcdp_operator_pool.so"))


def main(names: set[str] | None) -> int:
    load_pool()
    warnings.simplefilter("ignore")
    calls = recorded_calls(names)
    wrong: list[str] = []
    differing, steps = [], 0
    for name, of_name in sorted(calls.items()):
        outcomes = [check(call) for call in of_name]
        steps += sum(outcome.steps for outcome in outcomes)
        wrong += [text for outcome in outcomes for text in outcome.wrong]
        if any(outcome.differs for outcome in outcomes):
            differing.append(name)
    print(f"{len(calls)} operators in {steps} steps; allocations of these depend on values: {', '.join(differing)}")
    print("\n".join(wrong[:50]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(set(sys.argv[1:]) or None))
