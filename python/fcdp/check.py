# SPDX-License-Identifier: Apache-2.0
"""Runs an archive once and compares its loss and gradients with the model's."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from fcdp.call import Call
from fcdp.eager import StepResult, check_seed
from fcdp.errors import ExportError
from fcdp.torch_private import pytree

# Relative tolerances. Archive and eager step mostly run the same kernels, and then differ only in the order of threaded
# sums. Under export some models take another path (Transformers repeats the heads of keys and values, where eager
# leaves that to the kernel), which rounds elsewhere: by little in these types, by more where the step computes in half
# precision.
_LOSS_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}
_GRADIENT_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}
_HALF_TOLERANCE = 2e-2
_HALF_TYPES = (torch.bfloat16, torch.float16)
# Two paths that round alike differ by 1.4 times what each differs from exact arithmetic, and not by this many times.
_ROUNDING_FACTOR = 4
# A gradient that differs by more is wrong, whatever the type.
_GREATEST_TOLERANCE = 0.1
# Tolerance relative to the norm of all gradients, for parameters whose gradient is zero up to rounding.
_ROUNDING = 1e-6


@contextlib.contextmanager
def blaming_eager(first: StepResult, again: Callable[[], StepResult]) -> Iterator[None]:
    """Has a check that fails say so if plain PyTorch does not repeat its own step: no archive can be equal to both.

    `again` makes the eager step `first` once more.
    """
    try:
        yield
    except ExportError as error:
        difference = _difference(first, again())
        if difference is None:
            raise
        raise ExportError(
            f"plain PyTorch does not repeat the model's step on the example inputs, with the same weights and seed: {difference}. "
            "So the archive cannot be compared with it. Look for random numbers that are not of PyTorch's default generator, "
            "for states outside of buffers, and for memory that nothing has written (torch.empty)"
        ) from error


def _difference(first: StepResult, second: StepResult) -> str | None:
    """Says what two eager steps differ in, by more than their threads' order of sums."""
    is_half = first.loss.dtype in _HALF_TYPES
    if not _is_near(first.loss, second.loss, is_half):
        return f"its loss is {first.loss.item()}, and then {second.loss.item()}"
    for name, one in first.gradients.items():
        other = second.gradients.get(name)
        if (one is None) != (other is None):
            return f"only one of two passes has a gradient of '{name}'"
        if one is None or other is None or not one.isfinite().all():
            continue
        if not _relative_error(other, one) <= _GRADIENT_TOLERANCE.get(one.dtype, _HALF_TOLERANCE):
            norms = one.double().norm().item(), other.double().norm().item()
            return f"its gradient of '{name}' has norm {norms[0]:.6g}, and then {norms[1]:.6g}"
    return None


def check_archive(path: Path, call: Call, eager: StepResult, ties: dict[str, str]) -> float:
    """Returns the largest relative error of a gradient. Raises ExportError if the archive and the eager step differ."""
    return check_program(torch.export.load(path), call, eager, ties)


def check_program(program: ExportedProgram, call: Call, eager: StepResult, ties: dict[str, str]) -> float:
    """Does the same with a program that has its weights."""
    archive = replay(program, call)
    rounding = _Rounding(program, call, archive, ties)
    _check_loss(archive.loss, eager.loss, rounding.is_half)
    found = _by_root(archive.gradients, ties)
    expected = _by_root({n: g for n, g in eager.gradients.items() if g is not None}, ties)
    if found.keys() != expected.keys():
        raise ExportError(
            f"expected gradients of {sorted(expected)}, the archive has {sorted(found)}; please report this model"
        )
    _check_finite(expected)
    total = sum(g.double().norm().item() ** 2 for g in expected.values()) ** 0.5
    advice = _advice(eager.functions)
    return max(
        (
            _check_gradient(name, found[name], expected[name], total, rounding.tolerance(name, expected[name]), advice)
            for name in expected
        ),
        default=0.0,
    )


def replay(program: ExportedProgram, call: Call, interpreter: type[fx.Interpreter] = fx.Interpreter) -> StepResult:
    """Runs one step of the archive's graph on its own weights and the given inputs."""
    leaves = iter(call.leaves())
    inputs = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            inputs.append(next(leaves))
        elif spec.target in program.state_dict:
            inputs.append(program.state_dict[spec.target])
        else:
            inputs.append(program.constants[spec.target])
    try:
        with torch.no_grad(), check_seed():
            outputs = interpreter(program.graph_module).run(*inputs)
    except RuntimeError as error:
        if "allocate memory" in str(error) or "out of memory" in str(error):
            raise ExportError(
                "there is too little memory to compare the archive with eager PyTorch, which takes that of a step of the whole "
                f"model: give check=False, or more memory ({str(error).splitlines()[0]})"
            ) from error
        message = str(error).partition("\nOriginal traceback")[0].replace("\n\n", "\n")
        raise ExportError(f"the exported step fails where the model does not; please report this model: {message}") from error
    loss, gradients = None, {}
    for spec, value in zip(program.graph_signature.output_specs, outputs):
        if spec.kind is OutputKind.LOSS_OUTPUT:
            loss = value
        elif spec.kind is OutputKind.GRADIENT_TO_PARAMETER:
            gradients[spec.target] = value
    return StepResult(loss, gradients)


class _Wide(fx.Interpreter):
    """Computes in float32 what the graph computes in half precision."""

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        return _widen(super().placeholder(target, args, kwargs))

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        args, kwargs = pytree.tree_map_only(torch.dtype, _wide_type, (args, kwargs))
        return super().call_function(target, args, kwargs)


def _wide_type(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in _HALF_TYPES else dtype


def _widen(value: Any) -> Any:
    return value.to(_wide_type(value.dtype)) if isinstance(value, torch.Tensor) else value


class _Rounding:
    """Returns the effect of half precision on each gradient, measured against the same graph in float32."""

    def __init__(self, program: ExportedProgram, call: Call, archive: StepResult, ties: dict[str, str]):
        self.is_half = any(_is_half(node) for node in program.graph.nodes)
        self._errors: dict[str, float] = {}
        if self.is_half:
            half, wide = _by_root(archive.gradients, ties), _by_root(replay(program, call, _Wide).gradients, ties)
            self._errors = {name: _relative_error(half[name], wide[name]) for name in half}

    def tolerance(self, name: str, expected: torch.Tensor) -> float:
        """Returns by how much, relative to its norm, a gradient may differ from eager's."""
        least = _GRADIENT_TOLERANCE.get(expected.dtype, _HALF_TOLERANCE)
        return max(least, min(_ROUNDING_FACTOR * self._errors.get(name, 0.0), _GREATEST_TOLERANCE))


def _is_half(node: fx.Node) -> bool:
    return any(getattr(value, "dtype", None) in _HALF_TYPES for value in pytree.tree_leaves(node.meta.get("val")))


def _relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    error, norm = (found.double() - expected.double()).norm().item(), expected.double().norm().item()
    return error / norm if norm else 0.0


def _by_root(gradients: dict[str, torch.Tensor], ties: dict[str, str]) -> dict[str, torch.Tensor]:
    """Sums the gradients of tied names under the name of their root."""
    summed: dict[str, torch.Tensor] = {}
    for name, gradient in gradients.items():
        root = ties.get(name, name)
        summed[root] = summed[root] + gradient if root in summed else gradient
    return summed


def _check_loss(found: torch.Tensor, expected: torch.Tensor, is_half: bool) -> None:
    if not _is_near(found, expected, is_half):
        raise ExportError(
            f"the archive's loss is {found.item()}, eager's {expected.item()}; "
            "a model whose forward is not a function of its inputs and weights cannot be exported"
        )


def _is_near(found: torch.Tensor, expected: torch.Tensor, is_half: bool) -> bool:
    tolerance = _HALF_TOLERANCE if is_half else _LOSS_TOLERANCE.get(expected.dtype, _HALF_TOLERANCE)
    return torch.allclose(found.double(), expected.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def _check_finite(gradients: dict[str, torch.Tensor]) -> None:
    for name, gradient in gradients.items():
        if not gradient.isfinite().all():
            raise ExportError(
                f"plain PyTorch's gradient of '{name}' has a NaN or an infinity on the example inputs, so that the archive "
                "cannot be compared with it: give inputs whose gradients are finite, or check=False"
            )


def _advice(functions: tuple[str, ...]) -> str:
    """Returns the advice for a gradient that differs, for a model with torch.autograd.Functions of its own."""
    if not functions:
        return "please report this model"
    return (
        f"the model has the torch.autograd.Function {', '.join(functions)}: an export keeps its backward pass if all its "
        "arguments are tensors, numbers, texts or containers of these, and not if a module or a function is among them"
    )


def _check_gradient(
    name: str, found: torch.Tensor, expected: torch.Tensor, total: float, tolerance: float, advice: str
) -> float:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        raise ExportError(
            f"expected a gradient of '{name}' of {expected.dtype} {list(expected.shape)}, "
            f"the archive's is {found.dtype} {list(found.shape)}"
        )
    error = (found.double() - expected.double()).norm().item()
    norm = expected.double().norm().item()
    if not error <= tolerance * norm + _ROUNDING * total:
        raise ExportError(
            f"the archive's gradient of '{name}' has norm {found.double().norm().item():.6g}, eager's {norm:.6g} "
            f"(difference {error:.3g}, allowed {tolerance:g} of it); the archive was not written\nhint: {advice}"
        )
    return error / norm if norm else 0.0
