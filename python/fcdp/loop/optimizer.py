# SPDX-License-Identifier: Apache-2.0
"""Describes an optimizer of PyTorch by options of fcdp-compile."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from fcdp.errors import StepError
from fcdp.optimizers import AdamW8bit, Lion

Group = dict[str, Any]


Given = str | torch.optim.Optimizer | Sequence[torch.optim.Optimizer]


def optimizer_options(optimizer: Given, model: nn.Module) -> list[str]:
    """Returns --optimizer, and --group for each parameter group that differs from the first.

    `optimizer` is a text for --optimizer, or an optimizer of PyTorch that has all trained parameters and has not made a
    step, or a Muon or Adafactor and another one that have them together. Raises StepError for one that fcdp has no
    equal of.
    """
    if isinstance(optimizer, str):
        return [f"--optimizer={optimizer}"]
    optimizers = list(optimizer) if isinstance(optimizer, Sequence) else [optimizer]
    described = [_describe(one) for one in optimizers]
    names = _names(optimizers, model)
    if len(optimizers) == 1 and not isinstance(optimizers[0], torch.optim.Muon):
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
    describe = _DESCRIPTIONS.get(type(optimizer))
    if describe is None:
        raise _misuse(_adam_instead(optimizer) if type(optimizer) is torch.optim.Adam else _unknown(optimizer))
    if optimizer.state:
        raise _misuse("it has made steps; states of an optimizer are set with load_optimizer_state_dict")
    if any("max_momentum" in group for group in optimizer.param_groups):
        raise _misuse("its OneCycleLR changes momentum or betas, which a step keeps: give OneCycleLR cycle_momentum=False")
    return describe(optimizer.param_groups[0])


def _unknown(given: Any) -> str:
    known = ", ".join(cls.__name__ for cls in _DESCRIPTIONS)
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
        raise _misuse("expected one optimizer, or a Muon or an Adafactor and one that is neither")
    first = can_be_first.index(True)
    texts = [described[first], *(text for i, text in enumerate(described) if i != first)]
    groups = []
    for optimizer, text in zip(optimizers, described):
        name = text.partition(",")[0]
        base = optimizer.param_groups[0]
        groups += _group_options(optimizer, base, optimizer.param_groups, names, f"optimizer={name}")
    return [f"--optimizer={'+'.join(texts)}", *(f"--group={option}" for option in groups)]


def _adamw(group: Group) -> str:
    _require(group, amsgrad=False, maximize=False)
    return _text("adamw", group, ("lr", "eps", "weight_decay")) + _betas(group)


def _adamw8bit(group: Group) -> str:
    return _text("adamw8bit", group, ("lr", "eps", "weight_decay")) + _betas(group)


def _lion(group: Group) -> str:
    return _text("lion", group, ("lr", "weight_decay")) + _betas(group)


def _betas(group: Group) -> str:
    beta1, beta2 = group["betas"]
    return f",beta1={float(beta1)!r},beta2={float(beta2)!r}"


def _sgd(group: Group) -> str:
    _require(group, maximize=False)
    nesterov = int(bool(group["nesterov"]))
    return _text("sgd", group, ("lr", "momentum", "dampening", "weight_decay")) + f",nesterov={nesterov}"


def _muon(group: Group) -> str:
    a, b, c = (float(number) for number in group["ns_coefficients"])
    text = _text("muon", group, ("lr", "weight_decay", "momentum", "eps"))
    text += f",nesterov={int(group['nesterov'])},ns_a={a!r},ns_b={b!r},ns_c={c!r},ns_steps={group['ns_steps']}"
    return text + f",adjust_lr_fn={group['adjust_lr_fn'] or 'original'}"


def _adafactor(group: Group) -> str:
    _require(group, maximize=False)
    eps1, eps2 = group["eps"]
    text = _text("adafactor", group, ("lr", "beta2_decay", "d", "weight_decay")) + f",eps2={float(eps2)!r}"
    return text if eps1 is None else text + f",eps1={float(eps1)!r}"


_DESCRIPTIONS: dict[type, Callable[[Group], str]] = {
    torch.optim.AdamW: _adamw,
    torch.optim.SGD: _sgd,
    Lion: _lion,
    torch.optim.Muon: _muon,
    AdamW8bit: _adamw8bit,
    torch.optim.Adafactor: _adafactor,
}

# The other optimizer's rate stays in proportion to the rate of one of these.
_FIRST_OF_TWO = (torch.optim.Muon, torch.optim.Adafactor)

# Settings that may differ between groups, and settings that do not change results.
_OWN_SETTINGS = ("params", "lr", "weight_decay")
_MEANINGLESS = ("foreach", "fused", "capturable", "differentiable")


def _text(name: str, group: Group, keys: tuple[str, ...]) -> str:
    return ",".join([name, *(f"{key}={float(group[key])!r}" for key in keys)])


def _require(group: Group, **settings: Any) -> None:
    for key, value in settings.items():
        if group.get(key, value) != value:
            raise _misuse(f"{key}: expected {value}, got {group[key]}")


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
