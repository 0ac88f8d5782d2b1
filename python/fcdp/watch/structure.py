# SPDX-License-Identifier: Apache-2.0
"""Refuses what is seen of a model without running it: hooks on gradients, and modules that use other ranks."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from fcdp.errors import ExportError
from fcdp.torch_private import backward_hooks, global_backward_hooks, gradient_hooks, is_accumulator_held

_INSTEAD = (
    "a compiled step runs no hooks on gradients: remove it, freeze what shall not be trained (requires_grad_(False)), or "
    "compute the same in forward, for example by a torch.autograd.Function"
)


def refuse_structure(model: nn.Module, train: bool) -> None:
    """Raises ExportError for a hook on the gradient of a trained parameter or of a module, and for what no export can
    have.

    That is a module of several ranks, of TorchScript, or without shapes.

    An evaluation (`train` is false) has no gradients.
    """
    for name, module in model.named_modules():
        _refuse_ranks(name, module)
        _refuse_script(name, module)
    for name, parameter in model.named_parameters():
        if is_lazy(parameter):
            raise ExportError(f"parameter '{name}' is of a lazy module and has no shape yet: run the model once before")
    if train:
        trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        for name, parameter in trained.items():
            _refuse_hooks(f"parameter '{name}'", gradient_hooks(parameter))
        _refuse_held_accumulators(trained)
        for name, module in model.named_modules():
            _refuse_hooks(_named(name, module), backward_hooks(module))
        _refuse_hooks("all modules (torch.nn.modules.module.register_module_full_backward_hook)", global_backward_hooks())


def _refuse_hooks(owner: str, hooks: list[Callable[..., Any]]) -> None:
    if hooks:
        raise ExportError(f"expected no hook on the gradient of {owner}, found {_described(hooks[0])}; {_INSTEAD}")


def _refuse_held_accumulators(trained: dict[str, nn.Parameter]) -> None:
    if is_accumulator_held(list(trained.values())):
        name = next(name for name, parameter in trained.items() if is_accumulator_held([parameter]))
        raise ExportError(
            f"expected no hook on the gradient of parameter '{name}', found that the program holds the node that accumulates "
            f"it (AccumulateGrad), as for a hook; {_INSTEAD}"
        )


def _refuse_ranks(name: str, module: nn.Module) -> None:
    if isinstance(module, nn.SyncBatchNorm) and (module.training or not module.track_running_stats):
        raise ExportError(
            f"{_named(name, module)} needs the statistics of all ranks, and a compiled step has those of one rank's "
            "micro-batch: use nn.BatchNorm1d, 2d or 3d if these are wanted, a norm without statistics (nn.GroupNorm), or "
            "module.eval() for its running statistics"
        )
    if isinstance(module, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        raise ExportError(f"{_named(name, module)} trains on several devices by itself: give the model that it wraps (.module)")


def _refuse_script(name: str, module: nn.Module) -> None:
    if isinstance(module, torch.jit.ScriptModule):
        raise ExportError(
            f"{_named(name, module)} is a program of TorchScript, which an export cannot look into: give the module that "
            "torch.jit.script or torch.jit.trace was called with"
        )


def _named(name: str, module: nn.Module) -> str:
    return f"module '{name}' ({type(module).__name__})" if name else f"the model ({type(module).__name__})"


def _described(hook: Callable[..., Any]) -> str:
    function = getattr(hook, "__func__", hook)
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", type(hook).__name__)
    return f"'{name}' ({code.co_filename}:{code.co_firstlineno})" if code else f"'{name}'"
