# SPDX-License-Identifier: Apache-2.0
"""Implements fcdp.export, which writes a training-step archive from a model and example inputs."""

import contextlib
import json
import os
import platform
import tempfile
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from fcdp.assertions import without_assertions
from fcdp.attributes import unchanged_attributes
from fcdp.call import INPUT_PREFIX, Call, LossFn, loss_forward, make_call
from fcdp.casting import warn_of_rounded_buffers
from fcdp.check import blaming_eager, check_archive, check_program
from fcdp.documents import attend_by_document
from fcdp.eager import StepResult, as_eager, eager_loss, eager_step, fake_mode_of, place_of
from fcdp.empty import off_meta, unmarked, without_values
from fcdp.errors import ExportError, shows_torch_messages, with_lines_of_torch
from fcdp.experts import group_products
from fcdp.functions import kept_functions
from fcdp.garbage import without_collections
from fcdp.joint import changed_buffers, joint_program, label_coverage, loss_program
from fcdp.logs import without_torch_logs
from fcdp.masks import simplify_masks
from fcdp.modes import warn_of_evaluation_mode
from fcdp.operators import check_operators
from fcdp.progress import hidden_progress, shown_progress, start_stage
from fcdp.recurrent import PAD_INSTEAD, is_of_packed, split_layers
from fcdp.regions import marked_regions
from fcdp.scaled import UnitChecks, check_units
from fcdp.ties import check_overlap, choose_roots, separated
from fcdp.torch_private import (
    checks_of_matrices_as_operators,
    save_program,
    stacks_of_forward,
    without_code,
    without_tensor_meta,
)
from fcdp.turns import one_at_a_time
from fcdp.units import units
from fcdp.version import __version__
from fcdp.watch import refuse_structure, watched_step

FORMAT = 1

_HINTS = {
    "len(gradients_to_parameters)": "two parameters have the very same gradient (as in x + a + b): merge them",
    "share storage but are not differentiable views": (
        "the step changes a buffer that has several names: give each module its own"
    ),
    "fake mode": "only the model is built under FakeTensorMode; make the inputs and call fcdp.export outside of it",
    "Could not guard on data-dependent": "forward branches on the values of a tensor: use torch.where or constants",
    "DataDependentOutputException": "forward needs the values of a tensor: use torch.where or constants",
    "DynamicOutputShapeException": (
        "the shape of this operator's result depends on values of tensors, and a compiled step has fixed shapes: compute it "
        "from tensors of fixed shape, or outside of the model"
    ),
    ".numpy() is not supported": "forward leaves PyTorch for NumPy: use functions of torch",
    "does not point to a user input that exists": "forward changes an input in place: change a clone of it",
    "USER_INPUT or BUFFER, got InputKind.PARAMETER": (
        "forward changes a parameter in place: make a buffer of it (register_buffer)"
    ),
    "USER_INPUT or BUFFER, got InputKind.CONSTANT": (
        "forward changes a tensor in place that is no buffer of the model: make it one (register_buffer)"
    ),
    "Found a graph input that requires gradients, and received a mutation": (
        "forward changes a trained parameter in place: make a buffer of it (register_buffer), or change it outside of forward"
    ),
    "fake tensor in the exported program constant": (
        "forward uses .data of a tensor, or a tensor of another pass: use .detach() under torch.no_grad(), and buffers"
    ),
    "KNOWN_TYPES or opaque types": (
        "forward gives an operator something that is no tensor or number, such as a torch.Generator: all random numbers of a "
        "compiled step come from one generator of its rank"
    ),
}
"""The advice for an error of torch.export, by a part of its name or text."""


@dataclass(frozen=True)
class Exported:
    """Describes the archive that was written.

    `nodes` and `labelled` count operations. `gradient_error` is the largest relative error in the check, or None if the
    check did not run. For a model without weights, `checked_units` are the units that were compared with eager PyTorch
    on random values ("" is the model around its units), and `unchecked_units` are the others, with the reason for each.
    """

    path: Path
    inputs: tuple[str, ...]
    units: list[str]
    ties: dict[str, str]
    unreached: list[str]
    nodes: int
    labelled: int
    gradient_error: float | None
    checked_units: tuple[str, ...] = ()
    unchecked_units: Mapping[str, str] = field(default_factory=dict)


@one_at_a_time()
@torch.inference_mode(False)
def export(
    model: nn.Module,
    example_inputs: Any,
    path: str | os.PathLike[str],
    loss_fn: LossFn | None = None,
    check: bool = True,
    train: bool = True,
    full_masks: Collection[str] = (),
    autocast: torch.dtype | None = None,
) -> Exported:
    """Writes forward pass, loss and backward pass of one micro-batch on one rank as a .pt2 archive.

    train: with False, writes only forward pass and loss, for fcdp-compile --eval. Call model.eval() first.

    example_inputs: a tuple of positional inputs, or a dict of keyword inputs, with the shapes every micro-batch will
    have. The model returns the loss (a scalar tensor) or an output with a `.loss`. With loss_fn, the last example input
    is the target: the model is called with the others, and the loss is loss_fn(output, target).

    The model stays in its current mode, training or evaluation, and is not changed; a step of a model with dropout or
    batch norm in evaluation mode is exported with a warning. Frozen parameters
    (requires_grad=False) stay frozen. Parameters that the loss does not depend on are recorded and exported as frozen.
    Parts of the model under torch.utils.checkpoint (use_reentrant=False) are computed again in the backward pass.

    check: load the archive again, run it on the example inputs and compare loss and gradients with eager PyTorch.
    Models without weights (built under fcdp.empty_weights(), FakeTensorMode, or on the device "meta") are compared unit
    by unit on random values, if a unit needs at most 4 GiB and 4e12 multiplications; `Exported` says which were not
    compared. Their archives have the full graph and no weights. Only fcdp.empty_weights() keeps the values of computed
    buffers, without which nothing is compared.

    full_masks: inputs that are all ones in every micro-batch, such as "attention_mask" of batches without padding.
    Masks of attention that depend on them are then replaced, like masks that depend on no input. Sessions refuse a
    batch in which an element of such an input is not 1; the loss of the graph is NaN then.

    autocast: with torch.bfloat16, forward pass and loss run under torch.autocast with this type. By default the
    caller's autocast applies.

    Raises ExportError if the export fails. Then `path` is not changed.
    """
    path = Path(path)
    if path.suffix != ".pt2":
        raise ExportError(f"expected a path that ends in .pt2, got '{path}'")
    if not path.parent.is_dir():
        raise ExportError(f"'{path}' cannot be written: expected an existing folder '{path.parent}'")
    refuse_structure(model, train)
    if train:
        warn_of_evaluation_mode(model)
    with shown_progress(), unmarked(model), off_meta(model):
        _check_parameters(model)
        call = make_call(model, example_inputs, loss_fn, full_masks, autocast)
        has_values = fake_mode_of(model) is None
        start_stage("running the model in eager PyTorch")
        eager = (eager_step if train else eager_loss)(model, call) if check and has_values else None
        return _export(model, call, path, eager, train, check and not has_values)[0]


def export_without_values(
    model: nn.Module, call: Call, path: Path, train: bool = True
) -> tuple[Exported, ExportedProgram]:
    """Does what `export` does, unchecked, and leaves the values of parameters out of the archive and the program."""
    refuse_structure(model, train)
    _check_parameters(model)
    with unmarked(model), without_values(model), off_meta(model):
        return _export(model, call, path, None, train)


def check_with_values(
    program: ExportedProgram, exported: Exported, model: nn.Module, call: Call, train: bool = True
) -> UnitChecks:
    """Checks what `export_without_values` returned as `export` does: with the values of the model, or unit by unit."""
    if any(parameter.device.type == "meta" for parameter in model.parameters()):
        with off_meta(model):
            return _check_units(model, call, program)
    with unmarked(model):
        program.state_dict.update(model.named_parameters(remove_duplicate=False))
        step = eager_step if train else eager_loss
        eager = step(model, call)
        with blaming_eager(eager, lambda: step(model, call)):
            return UnitChecks(error=check_program(program, call, eager, exported.ties))


def _export(
    model: nn.Module, call: Call, path: Path, eager: StepResult | None, train: bool = True, by_units: bool = False
) -> tuple[Exported, ExportedProgram]:
    """Writes the archive, and compares it with `eager` if that is given, or unit by unit."""
    with separated(model) as groups, contextlib.ExitStack() as undo:
        if not train:
            # The graph of the forward pass is then that of a step.
            _train_all(model, undo)
        unreached = _freeze_unreached(model, call, undo, train)
        names = {name for name, _ in model.named_parameters()}
        ties = choose_roots(groups, names - set(unreached))
        # A tied parameter is reached if any of its names is.
        unreached = [name for name in unreached if name not in ties]
        metadata = {
            "fcdp": FORMAT,
            "ties": ties,
            "units": units(model),
            "unreached": unreached,
            "versions": {"fcdp": __version__, "torch": torch.__version__, "python": platform.python_version()},
        }
        joint = _trace(model, call)
        warn_of_rounded_buffers(model, changed_buffers(joint))
        if not train:
            joint = loss_program(joint)
        if by_units:
            start_stage("comparing units with eager PyTorch")
        checks = _check_units(model, call, joint) if by_units else UnitChecks()
        # Write while unreached parameters are frozen, because the archive records whether each weight needs a gradient.
        error = _write(path, joint, metadata, call, eager, lambda: (eager_step if train else eager_loss)(model, call))
    labelled, nodes = label_coverage(joint)
    inputs = tuple(joint.graph_signature.user_inputs)
    exported = Exported(
        path, inputs, metadata["units"], ties, unreached, nodes, labelled, error, tuple(checks.checked), checks.unchecked
    )
    return exported, joint


def _check_units(model: nn.Module, call: Call, joint: ExportedProgram) -> UnitChecks:
    return check_units(model, call, joint, units(model), _trace_with_values, check_program)


def _trace_with_values(model: nn.Module, call: Call) -> tuple[ExportedProgram, StepResult, dict[str, str]]:
    """Returns the program of a model with its values, the step of eager PyTorch, and the tied names."""
    eager = eager_step(model, call)
    with hidden_progress(), separated(model) as groups, contextlib.ExitStack() as undo:
        unreached = _freeze_without_gradient(model, eager_step(model, call), undo)
        ties = choose_roots(groups, {name for name, _ in model.named_parameters()} - set(unreached))
        return _trace(model, call), eager, ties


def _train_all(model: nn.Module, undo: contextlib.ExitStack) -> None:
    """Has all parameters trained until `undo` runs."""
    for parameter in model.parameters():
        if not parameter.requires_grad and parameter.is_floating_point():
            undo.callback(parameter.requires_grad_, False)
            parameter.requires_grad_(True)


def _check_parameters(model: nn.Module) -> None:
    check_overlap(model)
    for name, parameter in model.named_parameters():
        if parameter.is_complex():
            raise ExportError(
                f"parameter '{name}' is complex, which optimizers of compiled steps do not update: keep "
                "torch.view_as_real of it as the parameter, and use torch.view_as_complex in forward"
            )


def _freeze_unreached(model: nn.Module, call: Call, undo: contextlib.ExitStack, train: bool) -> list[str]:
    """Freezes the parameters without a gradient until `undo` runs, and returns their names.

    torch's joint export refuses a trainable parameter without one. Raises ExportError if the model does what a compiled
    step would not do.
    """
    start_stage("watching passes of the model")
    return _freeze_without_gradient(model, watched_step(model, call, train), undo)


def _freeze_without_gradient(model: nn.Module, step: StepResult, undo: contextlib.ExitStack) -> list[str]:
    parameters = dict(model.named_parameters())
    unreached = [name for name, gradient in step.gradients.items() if gradient is None]
    for name in unreached:
        undo.callback(parameters[name].requires_grad_, True)
        parameters[name].requires_grad_(False)
    return unreached


def _trace(model: nn.Module, call: Call) -> ExportedProgram:
    try:
        with (
            unchanged_attributes(model, call.loss_fn),
            loss_forward(model, call),
            torch.enable_grad(),
            as_eager(),
            warnings.catch_warnings(),
            without_torch_logs(),
            without_collections(),
        ):
            # torch.export warns of its own use of LeafSpec.
            warnings.filterwarnings("ignore", category=FutureWarning, message=".*LeafSpec")
            # fcdp compares and restores the values that forward keeps.
            warnings.filterwarnings("ignore", category=UserWarning, message="The tensor attributes? .* assigned during export")
            with without_assertions(), kept_functions() as recorded:
                with marked_regions(), recorded, stacks_of_forward(), without_code(), without_tensor_meta():
                    start_stage("tracing the forward pass")
                    forward = torch.export.export(model, call.values, strict=False)
                split_layers(forward)
                simplify_masks(forward, {INPUT_PREFIX + name: call.given[name].cpu() for name in call.full_masks})
                with checks_of_matrices_as_operators():
                    start_stage("tracing the backward pass")
                    joint = joint_program(forward)
                attend_by_document(joint)
                group_products(joint)
            check_operators(joint)
            return joint
    except ExportError:
        raise
    except Exception as error:
        first, *others = str(error).splitlines() or [type(error).__name__]
        message = f"torch.export could not trace the training step: {first}{place_of(error)}\nhint: {_hint(error)}"
        # A cause would be shown with all of its lines.
        raise ExportError(with_lines_of_torch(message, others)) from (error if shows_torch_messages() else None)


def _hint(error: Exception) -> str:
    if is_of_packed(error):
        return PAD_INSTEAD
    said = f"{type(error).__name__}: {error}"
    return next(
        (hint for part, hint in _HINTS.items() if part in said),
        "torch.export traces forward with tensors that have no values, and refuses this one; "
        "torch.export.draft_export(model, inputs) may say more of it",
    )


def _write(
    path: Path,
    joint: ExportedProgram,
    metadata: dict[str, Any],
    call: Call,
    eager: StepResult | None,
    again: Callable[[], StepResult],
) -> float | None:
    """Writes and checks the archive in a temporary folder beside `path`, then moves it to `path`.

    Returns the check's largest relative error, or None without a check. `again` makes the eager step once more.

    torch names the archive's root folder after the file, so the temporary file already has the final name.
    """
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fcdp-export-") as folder:
        written = Path(folder) / path.name
        try:
            start_stage("writing the archive")
            with without_collections():
                save_program(joint, written, {"fcdp.json": json.dumps(metadata, indent=1)})
        except Exception as error:
            said = str(error).replace(str(written), str(path))
            raise ExportError(f"torch.export.save could not write '{path}': {said}") from error
        error = None
        if eager is not None:
            start_stage("comparing the archive with eager PyTorch")
            with blaming_eager(eager, again):
                error = check_archive(written, call, eager, metadata["ties"])
        os.replace(written, path)
    return error
