# SPDX-License-Identifier: Apache-2.0
"""Reads and restores what a model holds beside its parameters, buffers and modules: numbers, containers, tensors,
generators.

A compiled step keeps none of it: it has what Python computed of it in one pass.
"""

import collections
import contextlib
import enum
import functools
import itertools
import operator
import os
import pickle
import random
import sys
import sysconfig
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fcdp.torch_private import buffer_table, count_writes, is_fake, module_table, parameter_table

# More is not looked at. Models of Transformers have a tenth of it.
_MOST_VALUES = 500_000
_MOST_BYTES = 1 << 20

_PLAIN = (bool, int, float, complex, str, bytes, type(None), enum.Enum, torch.dtype, torch.device, torch.Size, range)
# The type of functions under functools.lru_cache or cache.
_CACHED = type(functools.cache(lambda: None))
# Attributes of every module that are PyTorch's own. Hooks of forward are not among them: they may hold numbers.
_PYTORCHS = set(vars(nn.Module())) - {"training", "_forward_hooks", "_forward_pre_hooks"} | {"_compiled_call_impl"}


def _folders(*paths: str) -> tuple[str, ...]:
    """Returns the folders as they are named and without links: code may have been compiled under either name."""
    folders = (folder for path in paths for folder in (Path(path).absolute(), Path(path).resolve()))
    return tuple(dict.fromkeys(str(folder) + os.sep for folder in folders))


_STANDARD = _folders(sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
_TORCH = _folders(os.path.dirname(torch.__file__))
_FCDP = _folders(os.path.dirname(__file__))


@dataclass(frozen=True)
class HeldTensor:
    """A tensor that is no parameter or buffer, and how often its memory had been written to."""

    tensor: torch.Tensor
    writes: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HeldTensor) and self.tensor is other.tensor and self.writes == other.writes

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Registered:
    """A parameter or module in its place, and how often the parameter had been written to."""

    kind: str
    identity: int
    writes: int = 0


@dataclass(frozen=True)
class Drawn:
    """The state of a random generator, of a library or, with no name of one, of PyTorch."""

    library: str
    state: Any


def is_standard(file: str) -> bool:
    """Returns whether a source file is of Python's standard library."""
    return file.startswith(("<frozen", *_STANDARD)) and "site-packages" not in file


def is_torchs(file: str) -> bool:
    return file.startswith(_TORCH)


def is_fcdps(file: str) -> bool:
    return file.startswith(_FCDP)


def held_values(model: nn.Module, loss_fn: Any = None) -> dict[str, Any]:
    """Returns what modules, their classes, and the functions and globals that these name hold, by its path.

    The model's own attributes have their plain names ("blocks.0.calls").
    """
    return _Walk(model, loss_fn).values


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Returns the paths whose values differ or that only one of the two has, in the order of `after`."""
    paths = dict.fromkeys([*after, *before])
    absent = object()
    return [path for path in paths if not _equal(before.get(path, absent), after.get(path, absent))]


@contextlib.contextmanager
def unchanged_attributes(model: nn.Module, loss_fn: Any = None) -> Iterator[None]:
    """Gives objects and containers the contents that they had, when the context ends. Buffers are left as they are."""
    walk = _Walk(model, loss_fn)
    try:
        yield
    finally:
        restore(walk.holders)
        restore([(holder, content) for holder, content in walk.shared if _has_fake(holder)])


def contents_of(values: Any) -> list[tuple[Any, Any]]:
    """Returns objects and containers that are reached from `values`, each with its content, for `restore`."""
    return _Walk(nn.Module(), values).holders


def restore(contents: list[tuple[Any, Any]]) -> None:
    for holder, content in contents:
        _restore(holder, content)


def _has_fake(holder: Any) -> bool:
    """Returns whether a dict or list holds a tensor without values, as a cache of a pass without them does."""
    values = dict.values(holder) if isinstance(holder, dict) else holder if isinstance(holder, list) else ()
    return any(isinstance(value, torch.Tensor) and is_fake(value) for value in values)


def _equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    is_nan = isinstance(one, float) and one != one and other != other
    return one is other or one == other or is_nan


def _raw(value: dict[Any, Any]) -> dict[Any, Any]:
    """Copies a dict. Classes derived from it may make something else when an item is read, as Transformers' ACT2FN
    does.
    """
    return dict(dict.items(value))


def _restore(holder: Any, content: Any) -> None:
    if isinstance(holder, dict):
        now = _raw(holder)
        for key in now.keys() - content.keys():
            del holder[key]
        for key, value in content.items():
            if key not in now or now[key] is not value:
                holder[key] = value
    elif isinstance(holder, types.CellType):
        holder.cell_contents = content
    elif isinstance(holder, _CACHED):
        # Tables that a pass without values has made have none.
        if holder.cache_info().misses != content:
            holder.cache_clear()
    elif isinstance(holder, (set, collections.deque)):
        if len(holder) != len(content) or any(a is not b for a, b in zip(holder, content)):
            holder.clear()
            (holder.update if isinstance(holder, set) else holder.extend)(content)
    elif len(holder) != len(content) or any(a is not b for a, b in zip(holder, content)):
        holder[:] = content


class _Walk:
    """Goes through all that a model holds, once."""

    def __init__(self, model: nn.Module, loss_fn: Any) -> None:
        self.values: dict[str, Any] = {}
        # The objects that can change in place, and their contents.
        self.holders: list[tuple[Any, Any]] = []
        self._seen: dict[int, Any] = {}
        # The nearest come first, and have the shortest paths.
        self._queue: collections.deque[tuple[str, Any, bool]] = collections.deque()
        # Globals may be those of a library, and are only restored if a pass has put tensors without values there.
        self.shared: list[tuple[Any, Any]] = []
        self._is_global = False
        for name, module in model.named_modules():
            self._seen[id(module)] = module
            self._modules_own(name, module)
        for name, module in model.named_modules():
            self._class(type(module))
        self._value("loss_fn", loss_fn)
        for _ in range(_MOST_VALUES):
            if not self._queue:
                break
            path, value, self._is_global = self._queue.popleft()
            self._visit(path, value)

    def _modules_own(self, name: str, module: nn.Module) -> None:
        prefix = f"{name}." if name else ""
        for key, parameter in parameter_table(module).items():
            writes = 0 if parameter is None or parameter.is_inference() else count_writes(parameter)
            self.values[prefix + key] = Registered("parameter", id(parameter), writes)
        for key, child in module_table(module).items():
            self.values[prefix + key] = Registered("module", id(child))
        for table in (parameter_table(module), buffer_table(module), module_table(module)):
            self._hold(table, dict(table))
        content = dict(vars(module))
        self._hold(vars(module), content)
        for key, value in content.items():
            if key not in _PYTORCHS:
                self._value(prefix + key, value)

    def _class(self, cls: type) -> None:
        for base in cls.__mro__:
            if base in (object, nn.Module) or not _is_users_module(base.__module__) or id(base) in self._seen:
                continue
            self._seen[id(base)] = base
            for key, value in list(vars(base).items()):
                if not key.startswith("__"):
                    self._value(f"{base.__qualname__}.{key} (of the class)", getattr(value, "__func__", value))

    def _value(self, path: str, value: Any) -> None:
        if isinstance(value, _PLAIN):
            self.values[path] = value
        elif id(value) not in self._seen:  # the same object may be held in two places
            self._seen[id(value)] = value
            self._queue.append((path, value, self._is_global))

    def _hold(self, holder: Any, content: Any) -> None:
        (self.shared if self._is_global else self.holders).append((holder, content))

    def _visit(self, path: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self.values[path] = HeldTensor(value, -1 if value.is_inference() else count_writes(value))
        elif (state := _generator_state(value)) is not None:
            self.values[path] = state
        elif isinstance(value, (list, tuple, collections.deque)):
            self._sequence(path, value)
        elif isinstance(value, dict):
            self._dict(path, value)
        elif isinstance(value, (set, frozenset)):
            if isinstance(value, set):
                self._hold(value, set(value))
            self.values[path] = frozenset(repr(item) for item in value if isinstance(item, _PLAIN))
        elif isinstance(value, types.MethodType):
            self._value(path, value.__func__)
            self._value(path, value.__self__)
        elif isinstance(value, types.FunctionType):
            self._function(path, value)
        elif isinstance(value, _CACHED):
            self.holders.append((value, value.cache_info().misses))
            self._value(path, value.__wrapped__)
        elif isinstance(value, functools.partial):
            for part in (value.func, value.args, value.keywords):
                self._value(path, part)
        elif hasattr(type(value), "__next__") and not _is_users_module(type(value).__module__):
            self.values[path] = _position(value)
        elif type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
            self.values[path] = (value.shape, value.tobytes() if value.nbytes <= _MOST_BYTES else None)
        else:
            self._object(path, value)

    def _sequence(self, path: str, value: Any) -> None:
        if not isinstance(value, tuple):
            self._hold(value, list(value))
        self.values[f"len({path})"] = len(value)
        for index, item in enumerate(list(value)):
            self._value(f"{path}[{index}]", item)

    def _dict(self, path: str, value: dict[Any, Any]) -> None:
        content = _raw(value)
        self._hold(value, content)
        for key, item in content.items():
            self._value(f"{path}[{key!r}]" if isinstance(key, _PLAIN) else f"{path}[...]", item)

    def _object(self, path: str, value: Any) -> None:
        if isinstance(value, (type, types.ModuleType)) or not _is_users_module(type(value).__module__):
            if not isinstance(value, (nn.Module, types.SimpleNamespace)):
                return
        if isinstance(value, nn.Module):
            # It is not a module of the model: a teacher in a list, or the loss.
            for name, module in value.named_modules(prefix=path):
                self._seen[id(module)] = module
                self._modules_own(name, module)
            return
        if isinstance(own := getattr(value, "__dict__", None), dict):
            content = dict(own)
            self._hold(own, content)
            for key, item in content.items():
                self._value(f"{path}.{key}", item)
        for base in type(value).__mro__:
            slots = vars(base).get("__slots__", ())
            for key in (slots,) if isinstance(slots, str) else slots:
                self._value(f"{path}.{key}", getattr(value, key, None))

    def _function(self, path: str, function: types.FunctionType) -> None:
        if not _is_users_file(function.__code__.co_filename):
            return
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            with contextlib.suppress(ValueError):  # an empty cell
                self._hold(cell, cell.cell_contents)
                self._value(f"{name} (a variable around {function.__qualname__})", cell.cell_contents)
        for held in (function.__defaults__, function.__kwdefaults__):
            self._value(f"{function.__qualname__} (a default value)", held)
        for key, item in list(vars(function).items()):
            self._value(f"{function.__qualname__}.{key}", item)
        self._is_global = True
        for name in _names(function.__code__):
            if name in function.__globals__:
                self._value(f"{function.__module__}.{name}", function.__globals__[name])


def _position(value: Any) -> Any:
    """Returns something that is another value once an iterator of Python's own, or a part of one, has gone on."""
    if isinstance(value, tuple):
        return tuple(_position(part) for part in value)
    if isinstance(value, types.GeneratorType):
        return value.gi_frame and value.gi_frame.f_lasti
    if isinstance(value, (itertools.count, *_PLAIN)):
        return repr(value)
    if _is_users_module(type(value).__module__):
        return None
    left = operator.length_hint(value, -1)
    if left < 0 and type(value).__module__ in ("builtins", "itertools"):
        with warnings.catch_warnings(), contextlib.suppress(TypeError):  # Not all have it, and with Python 3.14 fewer.
            warnings.simplefilter("ignore", DeprecationWarning)
            return _position(value.__reduce__()[1:])
    return left


def _names(code: types.CodeType) -> Iterator[str]:
    """Yields the names of globals that a function and those inside of it may use."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _is_users_file(file: str) -> bool:
    return not is_standard(file) and not is_torchs(file)


def _is_users_module(name: str) -> bool:
    """Returns whether a Python module is neither of Python nor of PyTorch."""
    top = name.partition(".")[0]
    return top not in sys.stdlib_module_names - {"__main__"} and top not in ("torch", "numpy", "fcdp")


def global_generators() -> dict[str, Drawn]:
    """Returns the states of the generators of Python and NumPy that all of a program shares."""
    found = {"random": Drawn("Python's random", random.getstate())}
    if "numpy" in sys.modules:
        found["numpy.random"] = Drawn("NumPy", pickle.dumps(sys.modules["numpy"].random.get_state(legacy=False)))
    return found


def _generator_state(value: Any) -> Drawn | None:
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        return Drawn("Python's random", value.getstate())
    if isinstance(value, torch.Generator):
        return Drawn("", value.get_state().tolist())
    if not type(value).__module__.startswith("numpy.random"):
        return None
    bits = getattr(value, "bit_generator", None) or getattr(value, "_bit_generator", value)
    return Drawn("NumPy", pickle.dumps(bits.state)) if hasattr(bits, "state") else None
