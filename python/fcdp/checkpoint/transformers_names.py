# SPDX-License-Identifier: Apache-2.0
"""Converts between the tensors that Transformers stores and those that its models have.

Transformers 5 stores some models under other names than they have, and in other pieces, for instance experts one by
one. The mappings are its own (transformers.conversion_mapping). This module does what its from_pretrained and
save_pretrained do, with one group of tensors in memory at a time instead of all.
"""

import copy
import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fcdp.checkpoint.dtypes import NAMES, TORCH_TYPES
from fcdp.checkpoint.errors import CheckpointError
from fcdp.checkpoint.fields import read_json
from fcdp.checkpoint.state import Checkpoint, State

DIRECTIONS = ("to-model", "from-model")
CONFIG = "config.json"
_ADVICE = "install Transformers 5, or convert with the program that wrote the weights"


@dataclass
class _Group:
    """Tensors that become others together."""

    target: str
    converter: Any = None  # None if it is one tensor that gets another name.
    sources: list[tuple[str, str]] = field(default_factory=list)  # Patterns of the converter, and names.


def _beginnings(group: _Group) -> tuple[str, str]:
    """Returns what the stored name and the new one have before their common end."""
    stored, made = group.sources[0][1].split("."), group.target.split(".")
    while stored and made and stored[-1] == made[-1]:
        stored, made = stored[:-1], made[:-1]
    return ".".join(stored), ".".join(made)


@dataclass
class Plan:
    """How the tensors of a model are made from others."""

    model: nn.Module
    groups: list[_Group]
    rename: Callable[[str], str]  # Is applied to the names of a converter's results.

    @property
    def is_needed(self) -> bool:
        """Returns whether fcdp would not find the tensors itself, as it does if all names have another beginning."""
        known = self.model.state_dict()
        beginnings = {_beginnings(group) for group in self.groups if group.target in known}
        return len(beginnings) > 1 or any(group.converter is not None for group in self.groups)

    def convert_group(self, group: _Group, read: Callable[[str], torch.Tensor]) -> dict[str, torch.Tensor]:
        """Returns the new tensors of a group by name."""
        converter = copy.deepcopy(group.converter)
        for pattern, name in group.sources:
            converter.add_tensor(group.target, name, pattern, lambda name=name: read(name))
        made = converter.convert(group.target, model=self.model, config=self.model.config)
        return {self.rename(name): value[0] if isinstance(value, list) else value for name, value in made.items()}


def has_mapping() -> bool:
    """Returns whether the installed Transformers stores models in another form than they have, as version 5 does."""
    try:
        return importlib.util.find_spec("transformers.conversion_mapping") is not None
    except ImportError:
        return False


def model_of_config(config: Path) -> nn.Module:
    """Returns the model that the file describes, without values. Raises CheckpointError."""
    if not has_mapping():
        raise CheckpointError(config, "Transformers 5 to be installed", "none", "run pip install transformers")
    import transformers

    names = read_json(config, "name the config.json of the model").texts("architectures")
    cls = getattr(transformers, names[0], None) if names else None
    if cls is None:
        found = f"'{names[0]}'" if names else "none"
        raise CheckpointError(config, "a model of Transformers in \"architectures\"", found, _ADVICE)
    return without_values(cls, transformers.AutoConfig.from_pretrained(config.parent, local_files_only=True))


def without_values(cls: type[nn.Module], config: Any) -> nn.Module:
    """Returns a model on the device "meta"."""
    with torch.device("meta"):
        return cls(copy.deepcopy(config))


def plan_to_model(model: nn.Module, names: Iterable[str]) -> Plan:
    """Plans how the model's tensors are made from the stored ones, as from_pretrained makes them."""
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import dot_natural_key, rename_source_key

    renamings, converters = _split(get_model_conversion_mapping(model))
    patterns = {pattern: converter for converter in converters for pattern in converter.source_patterns}
    known = model.state_dict()
    groups: dict[str, _Group] = {}
    for name in sorted(names, key=dot_natural_key):
        prefix = model.base_model_prefix
        target, pattern = rename_source_key(name, renamings, converters, prefix, known)
        if target not in known and name in known:
            target, pattern = rename_source_key(name, [], [], prefix, known)
        if target not in known:
            target, pattern = name, None  # The model has no such tensor.
        _add(groups, target, name, pattern, patterns)
    return Plan(model, list(groups.values()), lambda name: name)


def plan_from_model(model: nn.Module, names: Iterable[str]) -> Plan:
    """Plans how the tensors to store are made from the model's, as save_pretrained makes them."""
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import PrefixChange, apply_converters, apply_renamings, dot_natural_key

    mapping = reversed(get_model_conversion_mapping(model, add_legacy=False))
    renamings, converters = _split([one.reverse_transform() for one in mapping if not isinstance(one, PrefixChange)])
    patterns = {pattern: converter for converter in converters for pattern in converter.source_patterns}
    groups: dict[str, _Group] = {}
    for name in sorted(names, key=dot_natural_key):
        target, pattern = apply_converters(name, converters)
        if pattern is None:
            target = apply_renamings(name, renamings)
        _add(groups, target, name, pattern, patterns)
    return Plan(model, list(groups.values()), lambda name: apply_renamings(name, renamings))


def plan_conversion(direction: str, checkpoint: Checkpoint, config: Path) -> Plan:
    """Plans a conversion of the checkpoint's weights for the model that `config` describes."""
    model = model_of_config(config)
    names = [state.name for state in checkpoint.states]
    if direction == "to-model":
        return plan_to_model(model, names)
    unknown = [name for name in names if name not in model.state_dict()]
    if unknown:
        found = f"'{unknown[0]}'" + (f" and {len(unknown) - 1} more that it has not" if len(unknown) > 1 else "")
        advice = "give --strip-prefix if the model was inside of another module, or another config.json"
        raise CheckpointError(checkpoint.path, f"the names of {type(model).__name__}", found, advice)
    return plan_from_model(model, names)


def _split(mapping: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    from transformers.core_model_loading import WeightConverter, WeightRenaming

    return (
        [one for one in mapping if isinstance(one, WeightRenaming)],
        [one for one in mapping if isinstance(one, WeightConverter)],
    )


def _add(groups: dict[str, _Group], target: str, name: str, pattern: str | None, patterns: Mapping[str, Any]) -> None:
    group = groups.setdefault(target, _Group(target, None if pattern is None else patterns[pattern]))
    if group.sources and (pattern is None or group.converter is None):
        found = f"'{group.sources[0][1]}', too"
        raise CheckpointError(name, f"one tensor for '{target}'", found, "leave one of them out")
    group.sources.append((pattern or name, name))


class _Converted:
    """The values of the group that was converted last, which is read in parts."""

    def __init__(self, plan: Plan, states: Mapping[str, State]):
        self._plan, self._states = plan, states
        self._group: _Group | None = None
        self._values: dict[str, torch.Tensor] = {}

    def reader(self, group: _Group, name: str) -> Callable[[int, int], torch.Tensor]:
        def read(offset: int, length: int) -> torch.Tensor:
            if self._group is not group:
                self._values = {}  # Before the next ones are made.
                self._values = self._plan.convert_group(group, self._read)
                self._group = group
            return self._values[name].reshape(-1)[offset : offset + length]

        return read

    def _read(self, name: str) -> torch.Tensor:
        state = self._states[name]
        return state.read(0, state.elements).reshape(state.shape)


def apply(plan: Plan, checkpoint: Checkpoint) -> Checkpoint:
    """Returns the checkpoint's weights under their new names.

    Their values are made when they are read, and the values of one group are in memory at a time.
    """
    states = {state.name: state for state in checkpoint.states}
    converted = _Converted(plan, states)

    def empty(name: str) -> torch.Tensor:
        return torch.empty(states[name].shape, dtype=TORCH_TYPES[states[name].dtype], device="meta")

    made = []
    for group in plan.groups:
        sources = [states[name] for _, name in group.sources]
        if group.converter is None:
            made.append(replace(sources[0], names=(group.target,)))
            continue
        trained = {source.trainable for source in sources}
        for name, value in plan.convert_group(group, empty).items():
            made.append(
                State(
                    (name,), "value", NAMES[value.dtype], tuple(value.shape), converted.reader(group, name),
                    updates=0, trainable=None if None in trained else True in trained,
                )  # fmt: skip
            )
    return replace(checkpoint, states=made)
