# SPDX-License-Identifier: Apache-2.0
"""The parameter groups of PyTorch's optimizers, which a checkpoint of fcdp-run does not have."""

from typing import Any

import torch

from fcdp.checkpoint import dcp_names
from fcdp.checkpoint.dcp_names import Prefixes
from fcdp.optimizers import optimizer_factory


def settings_of(optimizer: str) -> dict[str, Any]:
    """Returns the settings of a text such as "adamw,lr=1e-3" by PyTorch's names. Raises ValueError or TypeError."""
    group = optimizer_factory(optimizer)([torch.nn.Parameter(torch.zeros(1))]).state_dict()["param_groups"][0]
    return {key: value for key, value in group.items() if key != "params"}


def param_groups(optimizer: str, names: list[str], prefixes: Prefixes) -> dict[dcp_names.KeyPath, Any]:
    """Returns one group of all parameters, as get_optimizer_state_dict gives it, nested and flat."""
    settings = settings_of(optimizer)
    nested = {prefixes.group_path(0, key): value for key, value in {**settings, "params": names}.items()}
    flat = {prefixes.group_path(name, key): value for name in names for key, value in settings.items()}
    return {**nested, **flat}
