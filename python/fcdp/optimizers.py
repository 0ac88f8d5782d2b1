# SPDX-License-Identifier: Apache-2.0
"""Makes optimizers from the text that fcdp-compile --optimizer takes."""

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

OptimizerFactory = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]


class Lion(torch.optim.Optimizer):
    """Lion (arXiv 2302.06675), with the names and defaults of its authors' code, which PyTorch does not have."""

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ) -> None:
        for name, value, below in (
            ("lr", lr, math.inf),
            ("beta1", betas[0], 1),
            ("beta2", betas[1], 1),
            ("weight_decay", weight_decay, math.inf),
        ):
            if not 0 <= value < below:
                raise ValueError(f"expected '{name}' in [0, {below}), got {value}")
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)
        return loss

    def _update(self, parameter: torch.Tensor, grad: torch.Tensor, group: dict[str, Any]) -> None:
        exp_avg = self.state[parameter].setdefault("exp_avg", torch.zeros_like(parameter))
        beta1, beta2 = group["betas"]
        update = (exp_avg * beta1 + grad * (1 - beta1)).sign_()
        exp_avg.mul_(beta2).add_(grad * (1 - beta2))
        parameter.mul_(1 - group["lr"] * group["weight_decay"]).sub_(update * group["lr"])


_CLASSES = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD, "lion": Lion}


def optimizer_factory(text: str) -> OptimizerFactory:
    """Returns the factory for a text such as "adamw,lr=1e-3,beta2=0.95", "sgd,lr=0.1,momentum=0.9" or "lion,lr=1e-4".

    Settings that are not given have the class's defaults.

    Raises ValueError for a name or a key that does not exist, and for "muon", which does not update all parameters.
    """
    name, *settings = text.split(",")
    if name == "muon":
        raise ValueError("'muon' updates matrices only: make a torch.optim.Muon, and another optimizer for the rest")
    if name not in _CLASSES:
        raise ValueError(f"expected an optimizer among {sorted(_CLASSES)}, got '{name}'")
    optimizer = _CLASSES[name]
    options = dict(_setting(setting) for setting in settings)
    known = set(inspect.signature(optimizer).parameters)
    if "betas" in known:
        default = inspect.signature(optimizer).parameters["betas"].default
        options["betas"] = (options.pop("beta1", default[0]), options.pop("beta2", default[1]))
    unknown = sorted(set(options) - known)
    if unknown:
        raise ValueError(f"'{name}' has no setting {unknown}")
    return lambda parameters: optimizer(parameters, **options)


def _setting(text: str) -> tuple[str, float | bool]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"expected KEY=VALUE, got '{text}'")
    if value in ("true", "false"):
        return key, value == "true"
    return key, float(value)
