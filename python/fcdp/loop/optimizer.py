# SPDX-License-Identifier: Apache-2.0
"""Describes an optimizer of PyTorch by options of fcdp-compile."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from fcdp.errors import StepError
from fcdp.optimizer_records import OPTIMIZERS, OptimizerRecord, SettingRecord
from fcdp.optimizers import CLASSES

Group = dict[str, Any]


Given = str | torch.optim.Optimizer | Sequence[torch.optim.Optimizer]


def optimizer_options(optimizer: Given, model: nn.Module) -> list[str]:
    """Returns --optimizer, and --group for each parameter group that differs from the first.

    `optimizer` is a text for --optimizer, or an optimizer of PyTorch that has all trained parameters and has not made a
    step, or one of two that have them together, such as a Muon and an AdamW. Raises StepError for one that fcdp has no
    equal of.
    """
    if isinstance(optimizer, str):
        return [f"--optimizer={optimizer}"]
    optimizers = list(optimizer) if isinstance(optimizer, Sequence) else [optimizer]
    described = [_describe(one) for one in optimizers]
    names = _names(optimizers, model)
    if len(optimizers) == 1 and _RECORDS[type(optimizers[0])].updates_all:
        first, *others = optimizers[0].param_groups
        groups = [f"--group={option}" for option in _group_options(optimizers[0], first, others, names)]
        return [f"--optimizer={described[0]}", *groups]
    return _mixed_options(optimizers, described, names)


def expect_steps(optimizer: Given) -> None:
    """Keeps PyTorch's schedulers from warning that the optimizer makes no steps: the compiled step makes them."""
    if not isinstance(optimizer, str):
        for one in optimizer if isinstance(optimizer, Sequence) else [optimizer]:
            one._opt_called = True


def _describe(optimizer: torch.optim.Optimizer) -> str:
    record = _RECORDS.get(type(optimizer))
    if record is None:
        raise _misuse(_adam_instead(optimizer) if type(optimizer) is torch.optim.Adam else _unknown(optimizer))
    if optimizer.state:
        raise _misuse("it has made steps; states of an optimizer are set with load_optimizer_state_dict")
    if any("max_momentum" in group for group in optimizer.param_groups):
        raise _misuse("its OneCycleLR changes momentum or betas, which a step keeps: give OneCycleLR cycle_momentum=False")
    return _text(record, optimizer.param_groups[0])


def _unknown(given: Any) -> str:
    known = ", ".join(cls.__name__ for cls in _RECORDS)
    if isinstance(given, type):
        got = f"the class {given.__name__}: make an optimizer of it, {given.__name__}(model.parameters())"
    else:
        got = f"one of type {type(given).__name__}"
    return f"expected one of {known}, or a text such as 'adamw,lr=1e-3', got {got}"


def _adam_instead(adam: torch.optim.Adam) -> str:
    """Says which AdamW has the updates of an Adam, or that none has."""
    groups = adam.param_groups
    if all(group["weight_decay"] == 0 for group in groups):
        return "fcdp has no Adam: use torch.optim.AdamW with weight_decay=0, whose updates are the same"
    if all(group.get("decoupled_weight_decay") for group in groups):
        return "fcdp has no Adam: use torch.optim.AdamW with the same settings, whose updates are the same"
    return (
        "fcdp has no Adam, and no optimizer that adds weight_decay to the gradient as Adam does: use torch.optim.AdamW, which "
        "multiplies the parameter by 1 - lr * weight_decay instead, or leave out weight_decay (AdamW with weight_decay=0)"
    )


def _mixed_options(optimizers: list[torch.optim.Optimizer], described: list[str], names: dict[int, str]) -> list[str]:
    """Every parameter is in a group that names its optimizer."""
    can_be_first = [isinstance(one, _FIRST_OF_TWO) for one in optimizers]
    if sum(can_be_first) != 1 or len(optimizers) > 2:
        raise _misuse(f"expected one optimizer, or {_first_of_two()}")
    first = can_be_first.index(True)
    texts = [described[first], *(text for i, text in enumerate(described) if i != first)]
    groups = []
    for optimizer, text in zip(optimizers, described):
        name = text.partition(",")[0]
        base = optimizer.param_groups[0]
        groups += _group_options(optimizer, base, optimizer.param_groups, names, f"optimizer={name}")
    return [f"--optimizer={'+'.join(texts)}", *(f"--group={option}" for option in groups)]


def _first_of_two() -> str:
    *others, last = (f"{'an' if cls.__name__[0] in 'AEIO' else 'a'} {cls.__name__}" for cls in _FIRST_OF_TWO)
    return f"{', '.join(others)} or {last} and one that is {'none of them' if len(others) > 1 else 'neither'}"


_RECORDS: dict[type, OptimizerRecord] = {CLASSES[record.name]: record for record in OPTIMIZERS}

# The other optimizer's rate stays in proportion to the rate of one of these.
_FIRST_OF_TWO = tuple(cls for cls, record in _RECORDS.items() if record.takes_rest)

# Settings that may differ between groups, and settings that do not change results.
_OWN_SETTINGS = ("params", "lr", "weight_decay")
_MEANINGLESS = ("foreach", "fused", "capturable", "differentiable")


def _text(record: OptimizerRecord, group: Group) -> str:
    """Returns the optimizer's text. Plain numbers come first, and settings that may be left out last."""
    for flag in record.without_flags:
        if group.get(flag, False):
            raise _misuse(f"{flag}: expected False, got {group[flag]}")
    settings = sorted(record.settings, key=_place)
    values = [(setting.name, _value(record, setting, group)) for setting in settings]
    return ",".join([record.name, *(f"{name}={value}" for name, value in values if value is not None)])


def _place(setting: SettingRecord) -> tuple[bool, bool]:
    return (setting.kind != "number" or setting.tuple is not None, setting.default is None)


def _value(record: OptimizerRecord, setting: SettingRecord, group: Group) -> str | None:
    value = group[setting.tuple or setting.name]
    if setting.tuple:
        value = value[record.tuples[setting.tuple].index(setting.name)]
    if value is None:
        value = setting.default
    if value is None or setting.kind == "word":
        return value
    return repr(float(value)) if setting.kind == "number" else str(int(value))


def _names(optimizers: list[torch.optim.Optimizer], model: nn.Module) -> dict[int, str]:
    """Returns the names of the model's parameters by identity. Raises StepError unless all trained ones are there."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    given = [id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]]
    held = set(given)
    if len(held) < len(given):
        raise _misuse("a parameter is in two of them")
    left = [name for name, p in model.named_parameters() if p.requires_grad and id(p) not in held]
    if not held <= names.keys():
        raise _misuse(_of_another_model(len(held - names.keys()), len(held)))
    if left:
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        raise _misuse(
            f"it does not hold {left[0]}{more}, which the model trains: give them to the optimizer, or freeze them with "
            "requires_grad_(False)"
        )
    return names


def _of_another_model(foreign: int, held: int) -> str:
    return (
        f"{foreign} of the {held} parameters that it holds are none of the model's: it is the optimizer of another model, of a "
        "copy, or of this one before its parameters were replaced; make it from the parameters of the model that fcdp.compile gets"
    )


def _group_options(
    optimizer: torch.optim.Optimizer, first: Group, others: list[Group], names: dict[int, str], *shared: str
) -> list[str]:
    """`shared` are settings of all. Keys that schedulers or the program put into groups are no settings."""
    options = []
    for group in others:
        for key in optimizer.defaults:
            value = first[key]
            if key not in _OWN_SETTINGS + _MEANINGLESS and group[key] != value:
                raise _misuse(f"{key}: expected one value for all parameter groups, got {value} and {group[key]}")
        settings = list(shared)
        if group["weight_decay"] != first["weight_decay"]:
            settings.append(f"weight_decay={float(group['weight_decay'])!r}")
        if group["lr"] != first["lr"]:
            if first["lr"] == 0:
                raise _misuse("lr: expected a rate above 0 in the first group, of which the others have a factor")
            settings.append(f"lr={float(group['lr']) / float(first['lr'])!r}")
        if settings and group["params"]:
            patterns = ",".join(names[id(parameter)] for parameter in group["params"])
            options.append(f"{patterns}:{','.join(settings)}")
    return options


def _misuse(message: str) -> StepError:
    return StepError("misuse", f"optimizer: {message}")
