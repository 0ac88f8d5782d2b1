# SPDX-License-Identifier: Apache-2.0
"""Finds units: the modules whose parameters are gathered together, usually one per layer."""

from collections.abc import Iterable

from torch import nn


def units(model: nn.Module) -> list[str]:
    """Returns the units' module paths, ordered by their first parameter.

    Each child of an outermost nn.ModuleList or nn.Sequential is a unit. For any other parameter, the module that owns
    it is a unit ("" for the model itself).
    """
    layers = set(_layers(model, ""))
    found: dict[str, None] = {}
    for name, _ in model.named_parameters(remove_duplicate=False):
        unit = unit_of(name, layers)
        found.setdefault(name.rpartition(".")[0] if unit is None else unit)
    return list(found)


def unit_of(name: str, units: Iterable[str]) -> str | None:
    """Returns the longest unit that is a prefix of a parameter's or module's path, or None if there is none."""
    units = set(units)
    path = name
    while path not in units:
        if not path:
            return None
        path = path.rpartition(".")[0]
    return path


def _layers(module: nn.Module, path: str) -> list[str]:
    """Returns the paths of all children of outermost containers."""
    children = [(f"{path}.{name}" if path else name, child) for name, child in module.named_children()]
    if isinstance(module, (nn.ModuleList, nn.Sequential)):
        return [name for name, _ in children]
    return [layer for name, child in children for layer in _layers(child, name)]
