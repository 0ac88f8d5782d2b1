# SPDX-License-Identifier: Apache-2.0
"""Makes optimizers from the text that fcdp-compile --optimizer takes."""

import inspect
from collections.abc import Callable, Iterable

import torch

OptimizerFactory = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]

_CLASSES = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


def optimizer_factory(text: str) -> OptimizerFactory:
    """Returns the factory for a text such as "adamw,lr=1e-3,beta2=0.95" or "sgd,lr=0.1,momentum=0.9".

    Settings that are not given have PyTorch's defaults.

    Raises ValueError for a name or a key that does not exist.
    """
    name, *settings = text.split(",")
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
