# SPDX-License-Identifier: Apache-2.0
"""Writes a checkpoint in another format."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from fcdp.checkpoint import huggingface, transformers_names
from fcdp.checkpoint.atomic import new_folder
from fcdp.checkpoint.dcp_names import Prefixes
from fcdp.checkpoint.dcp_writer import write_dcp
from fcdp.checkpoint.errors import CheckpointError
from fcdp.checkpoint.like import fit
from fcdp.checkpoint.sharded import write_sharded
from fcdp.checkpoint.state import TRAINING_ROLES, Checkpoint, State

_WEIGHTS = ("hf", "safetensors")
FORMATS = (*_WEIGHTS, "dcp", "fcdp")


@dataclass(frozen=True)
class Options:
    format: str
    only_trained: bool = False
    without_optimizer: bool = False
    strip_prefix: str = ""
    add_prefix: str = ""
    shard_bytes: int | None = None
    config: Path | None = None
    prefixes: Prefixes | None = None
    optimizer: str | None = None
    step: int | None = None
    like: Checkpoint | None = None
    transformers: str | None = None  # One of transformers_names.DIRECTIONS.


@dataclass(frozen=True)
class Summary:
    states: int
    bytes: int
    left_out: list[str]  # Such as "exp_avg (12)".


def convert(source: Checkpoint, out: Path, options: Options) -> Summary:
    """Writes `source` to `out`, which must not exist. Reads no more than one state at a time."""
    chosen_states = filter(_chooser(source, options), source.states)
    if options.format in _WEIGHTS:
        chosen_states = _common(chosen_states, source)
    states = list(_rename(chosen_states, source, options))
    if not states:
        raise CheckpointError(source.path, "states to write", "none that were asked for", "see fcdp-ckpt inspect")
    _check_names(states, source)
    _check_packed(states, source, options)
    step = source.step if options.step is None else options.step
    chosen = replace(source, states=states, step=step)
    if options.like is not None:
        chosen = fit(chosen, options.like)
    if options.transformers is not None:
        chosen = _convert_names(chosen, options.transformers, options.config)
    if options.format == "hf":
        huggingface.write_folder(out, chosen, options.shard_bytes, options.config)
    elif options.format == "safetensors":
        huggingface.write_one(out, chosen)
    elif options.format == "dcp":
        with new_folder(out) as folder:
            write_dcp(folder, chosen, options.prefixes or Prefixes(), options.optimizer)
    else:
        _check_step(out, chosen)
        with new_folder(out) as folder:
            write_sharded(folder, chosen)
    return Summary(len(chosen.states), sum(state.bytes for state in chosen.states), list(_left_out(source, states)))


def _check_packed(states: list[State], source: Checkpoint, options: Options) -> None:
    """Refuses the bytes of packed matrices in formats that have values alone."""
    packed = next((state for state in states if state.packed), None)
    if packed is not None and options.format != "fcdp":
        expected, advice = f"values to write as {options.format}", "give --only-trained, or use fcdp-run --params-out"
        raise CheckpointError(source.path, expected, f"'{packed.name}' packed as {packed.packed}", advice)


def _convert_names(source: Checkpoint, direction: str, config: Path | None) -> Checkpoint:
    folder = source.path if source.path.is_dir() else source.path.parent
    config = folder / transformers_names.CONFIG if config is None else config
    if not config.is_file():
        raise CheckpointError(config, "the config.json of a model of Transformers", "none", "name it by --config")
    return transformers_names.apply(transformers_names.plan_conversion(direction, source, config), source)


def _left_out(source: Checkpoint, kept: list[State]) -> Iterator[str]:
    roles = Counter(state.role for state in source.states)
    roles.subtract(state.role for state in kept)
    yield from (f"{role} ({count})" for role, count in roles.items() if count)
    if source.ignored:
        yield f"{len(source.ignored)} entries that are no state, such as '{source.ignored[0]}'"


def _chooser(source: Checkpoint, options: Options) -> Callable[[State], bool]:
    if options.only_trained and all(state.trainable is None for state in source.states):
        found, advice = "a source that does not say so", "convert without --only-trained"
        raise CheckpointError(source.path, "states that are known to be trained", found, advice)
    trained = {state.name for state in source.states if state.role == "value" and state.trainable}
    only_weights = options.format in _WEIGHTS

    def choose(state: State) -> bool:
        if only_weights and (not state.is_model or state.owner):
            return False
        if options.without_optimizer and state.role in TRAINING_ROLES:
            return False
        return not options.only_trained or (state.role not in ("buffer", "random") and state.name in trained)

    return choose


def _common(states: Iterator[State], source: Checkpoint) -> Iterator[State]:
    """Gives parameters that each node has for itself the values that nodes have in common."""
    of_nodes = source.common()
    for state in states:
        common = of_nodes.get(state.name) if state.role == "value" and state.node is not None else None
        yield state if common is None else state.like(common)


def _rename(states: Iterator[State], source: Checkpoint, options: Options) -> Iterator[State]:
    """Takes a prefix from names, and puts one before them. The random state is no part of the model."""
    strip, found = options.strip_prefix, False
    for state in states:
        if state.role == "random":
            yield state
            continue
        found = found or any(name.startswith(strip) for name in state.names)
        names = tuple(options.add_prefix + name.removeprefix(strip) for name in state.names)
        yield replace(state, names=names)
    if strip and not found:
        expected = f"names that begin with '{strip}'"
        raise CheckpointError(source.path, expected, "none", "see fcdp-ckpt inspect --states for the names")


def _check_names(states: list[State], source: Checkpoint) -> None:
    counts = Counter((state.role, name, state.owner) for state in states for name in state.names)
    for (role, name, _), count in counts.items():
        if count > 1:
            found = f"{count} states {role}/{name}"
            raise CheckpointError(source.path, "one state of each name", found, "choose another prefix to take away")


def _check_step(out: Path, checkpoint: Checkpoint) -> None:
    match = re.fullmatch(r"step-(\d+)", out.name)
    if match and int(match[1]) != (checkpoint.step or 0):
        found, advice = f"a state after {checkpoint.step or 0} steps", "give --step, or choose another name"
        raise CheckpointError(out, f"a state after {int(match[1])} steps, by its name", found, advice)
