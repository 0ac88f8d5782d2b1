# SPDX-License-Identifier: Apache-2.0
"""Runs an archive once and compares its loss and gradients with the model's."""

from pathlib import Path

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from fcdp.call import Call
from fcdp.eager import StepResult, check_seed
from fcdp.errors import ExportError

# Relative tolerances. Archive and eager step run the same kernels, so they differ only in the order of threaded sums.
_LOSS_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}
_GRADIENT_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}
_HALF_TOLERANCE = 2e-2
# Tolerance relative to the norm of all gradients, for parameters whose gradient is zero up to rounding.
_ROUNDING = 1e-6


def check_archive(path: Path, call: Call, eager: StepResult, ties: dict[str, str]) -> float:
    """Returns the largest relative error of a gradient. Raises ExportError if the archive and the eager step differ."""
    program = torch.export.load(path)
    archive = replay(program, call)
    _check_loss(archive.loss, eager.loss)
    found = _by_root(archive.gradients, ties)
    expected = _by_root({n: g for n, g in eager.gradients.items() if g is not None}, ties)
    if found.keys() != expected.keys():
        raise ExportError(
            f"expected gradients of {sorted(expected)}, the archive has {sorted(found)}; please report this model"
        )
    total = torch.stack([g.double().norm() for g in expected.values()]).norm().item()
    return max(_check_gradient(name, found[name], expected[name], total) for name in expected)


def replay(program: ExportedProgram, call: Call) -> StepResult:
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
    with torch.no_grad(), check_seed():
        outputs = program.graph_module(*inputs)
    loss, gradients = None, {}
    for spec, value in zip(program.graph_signature.output_specs, outputs):
        if spec.kind is OutputKind.LOSS_OUTPUT:
            loss = value
        elif spec.kind is OutputKind.GRADIENT_TO_PARAMETER:
            gradients[spec.target] = value
    return StepResult(loss, gradients)


def _by_root(gradients: dict[str, torch.Tensor], ties: dict[str, str]) -> dict[str, torch.Tensor]:
    """Sums the gradients of tied names under the name of their root."""
    summed: dict[str, torch.Tensor] = {}
    for name, gradient in gradients.items():
        root = ties.get(name, name)
        summed[root] = summed[root] + gradient if root in summed else gradient
    return summed


def _check_loss(found: torch.Tensor, expected: torch.Tensor) -> None:
    tolerance = _LOSS_TOLERANCE.get(expected.dtype, _HALF_TOLERANCE)
    if not torch.allclose(found.double(), expected.double(), rtol=tolerance, atol=tolerance, equal_nan=True):
        raise ExportError(
            f"the archive's loss is {found.item()}, eager's {expected.item()}; "
            "a model whose forward is not a function of its inputs and weights cannot be exported"
        )


def _check_gradient(name: str, found: torch.Tensor, expected: torch.Tensor, total: float) -> float:
    tolerance = _GRADIENT_TOLERANCE.get(expected.dtype, _HALF_TOLERANCE)
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
            f"(difference {error:.3g}, allowed {tolerance:g} of it); the archive was not written"
        )
    return error / norm if norm else 0.0
