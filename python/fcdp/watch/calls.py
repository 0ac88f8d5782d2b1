# SPDX-License-Identifier: Apache-2.0
"""Sees the calls of a forward pass whose results or effects are not in its graph: time, other generators, ranks,
gradients.

Python's profile function sees each call, also of a function that a program has imported by its name.
"""

import contextlib
import cProfile
import datetime
import inspect
import os
import random
import sys
import time
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import Node, saved_tensors_hooks

from fcdp.attributes import is_fcdps, is_standard, is_torchs
from fcdp.torch_private import engine_function

_LOGGING = "/logging/"


@dataclass(frozen=True)
class Rule:
    """The effect of a call, and what to do instead. PyTorch's own code may make such calls."""

    does: str
    instead: str
    # Parts of the names of files whose code may do it, too, and of those that only pass it on.
    may: tuple[str, ...] = ()
    through: tuple[str, ...] = ()
    # An evaluation may do it.
    of_gradients: bool = False


# Some functions are wrapped, so that torch.compile does not trace them.
_WRAPPERS = ("/torch/_dynamo/", "/torch/_compile.py")
_TIME = Rule(
    "reads the time", "a compiled step would have one time for ever: give it as an input, or read it outside of forward"
)
RANDOM = Rule(
    "draws random numbers outside of PyTorch",
    "a compiled step would repeat one draw for ever: use functions of torch that give tensors, without .item(), or switch it "
    "off (layerdrop=0, mask_time_prob=0)",
)
SEEDS = Rule(
    "sets or reads the seed of a random generator of PyTorch",
    "all random numbers of a compiled step come from one generator of its rank, which the job seeds: leave that out",
    through=("/torch/random.py", "/torch/cuda/random.py", *_WRAPPERS),
)
_RANKS = Rule(
    "asks for ranks",
    "a compiled step would have the answer of the export: give the loss of one rank's micro-batch, the mean over ranks is the "
    "step's. Values that depend on a rank may be inputs",
    may=("/transformers/integrations/",),
    through=("/torch/distributed/", *_WRAPPERS),
)
_GRADIENTS = Rule(
    "computes gradients",
    "an export has the gradients of the loss alone: use the formula of that gradient, or torch.func.jvp",
    through=("/torch/autograd/", "/torch/_functorch/", "/torch/_tensor.py"),
)
_HOOKS = Rule(
    "registers a hook on a gradient",
    "a compiled step runs no hooks on gradients: use a torch.autograd.Function with that backward pass",
    through=("/torch/autograd/", "/torch/utils/hooks.py", "/torch/nn/modules/module.py", "/torch/_tensor.py"),
    of_gradients=True,
)
_SAVED = Rule(
    "has hooks on the tensors that are saved for the backward pass",
    "a compiled step saves them as they are: remove torch.autograd.graph.saved_tensors_hooks",
    of_gradients=True,
)

_CLOCKS = {
    getattr(time, name)
    for clock in ("time", "monotonic", "perf_counter", "process_time", "thread_time")
    for name in (clock, f"{clock}_ns")
} | {time.localtime, time.gmtime, time.ctime, time.strftime, time.clock_gettime, time.clock_gettime_ns, os.times}
_DATES = {datetime.datetime.now, datetime.datetime.utcnow, datetime.datetime.today, datetime.date.today}
_BYTES = {os.urandom, getattr(os, "getrandom", os.urandom)}
_BUILT_IN = dict.fromkeys(_CLOCKS | _DATES, _TIME) | dict.fromkeys(_BYTES, RANDOM)
# Methods by the name and the class of their object.
_METHODS = (
    [("random", random.Random, RANDOM), ("getrandbits", random.Random, RANDOM)]
    + [(name, torch.Generator, SEEDS) for name in ("manual_seed", "seed", "initial_seed", "set_state")]
    + [(name, Node, _HOOKS) for name in ("register_hook", "register_prehook")]
)
_NAMES = {function.__name__ for function in _BUILT_IN} | {name for name, _, _ in _METHODS}
# The variables of torchrun, of srun, and of mpirun.
_RANK_VARIABLES = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK", "NODE_RANK"}
_RANK_VARIABLES |= {f"SLURM_{name}" for name in ("PROCID", "LOCALID", "NODEID", "NTASKS", "NNODES")}
_RANK_VARIABLES |= {f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "NODE_RANK")}
_RANK_VARIABLES |= {"PMI_RANK", "PMI_SIZE", "PMIX_RANK", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}


@dataclass(frozen=True)
class Finding:
    """A call that breaks a rule: what was called, and where."""

    rule: Rule
    called: str
    place: str

    def __str__(self) -> str:
        return f"forward {self.rule.does} ('{self.called}', {self.place}): {self.rule.instead}"


class Calls:
    """Collects the calls that break a rule while it watches. Each rule is reported for its first call."""

    def __init__(self, model: nn.Module) -> None:
        self.findings: dict[Rule, Finding] = {}
        self._names_of_modules = {id(module): name for name, module in model.named_modules()}
        functions = _functions()
        self._rules = {id(function.__code__): rule for function, rule in functions}
        self._names = {function.__code__.co_name for function, _ in functions}

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Sees the calls of this thread until the context ends."""
        before = sys.getprofile()
        sys.setprofile(self._see)
        try:
            yield
        finally:
            sys.setprofile(None)
            # A profiler of cProfile is no function that sys.setprofile could take back. It misses what was watched.
            before.enable() if isinstance(before, cProfile.Profile) else sys.setprofile(before)

    def pause(self) -> None:
        """Has `watching` see nothing until `resume` is called."""
        sys.setprofile(None)

    def resume(self) -> None:
        sys.setprofile(self._see)

    def report(self, rule: Rule, called: str, frame: types.FrameType | None) -> None:
        """Adds a call by the code of `frame`, unless that code may make it."""
        while frame is not None and _passes_on(rule, frame.f_code.co_filename):
            # A private function has the name of its caller.
            called, frame = _name(frame.f_code) if called.startswith("_") else called, frame.f_back
        if frame is None or rule in self.findings or _may(rule, frame.f_code.co_filename):
            return
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        module = self._module_of(frame)
        self.findings[rule] = Finding(rule, called, f"{place} in module '{module}'" if module else place)

    def _see(self, frame: types.FrameType, event: str, function: Any) -> None:
        if event == "c_call":
            if function.__name__ in _NAMES and (rule := _rule_of_built_in(function)):
                self.report(rule, _title(function), frame)
        elif event == "call" and frame.f_code.co_name in self._names:
            rule = self._rules.get(id(frame.f_code))
            if rule is not None and not _is_harmless(rule, frame):
                self.report(rule, _name(frame.f_code), frame.f_back)

    def _module_of(self, frame: types.FrameType | None) -> str:
        """Returns the name of the innermost module whose method runs."""
        while frame is not None:
            if (name := self._names_of_modules.get(id(frame.f_locals.get("self")))) is not None:
                return name
            frame = frame.f_back
        return ""


def _functions() -> list[tuple[types.FunctionType, Rule]]:
    """Returns the functions of Python with a rule."""
    rules: list[tuple[Rule, list[Any]]] = [
        (_GRADIENTS, [engine_function()]),
        (_HOOKS, [torch.Tensor.register_hook, torch.Tensor.register_post_accumulate_grad_hook]),
        (_SAVED, [saved_tensors_hooks.__enter__]),
        (SEEDS, [getattr(torch.random, name) for name in ("fork_rng", "initial_seed", "manual_seed", "seed")]),
        (SEEDS, [getattr(torch.random, name) for name in ("get_rng_state", "set_rng_state")]),
        (SEEDS, [getattr(torch.cuda, name) for name in ("get_rng_state", "manual_seed", "manual_seed_all", "seed")]),
        (SEEDS, [torch.cuda.set_rng_state]),
        (_RANKS, [type(os.environ).__getitem__]),
    ]
    if torch.distributed.is_available():
        names = ("get_backend", "get_node_local_rank", "get_rank", "get_world_size", "is_initialized")
        names += ("is_torchelastic_launched",)
        rules.append((_RANKS, [getattr(torch.distributed, name) for name in names]))
        rules.append((_RANKS, [type(torch.distributed.GroupMember).WORLD.fget]))
    found = [(inspect.unwrap(function), rule) for rule, functions in rules for function in functions]
    return [(function, rule) for function, rule in found if isinstance(function, types.FunctionType)]


def _rule_of_built_in(function: types.BuiltinFunctionType) -> Rule | None:
    if (rule := _BUILT_IN.get(function)) is not None:
        return rule
    owner = function.__self__
    return next((rule for name, cls, rule in _METHODS if function.__name__ == name and isinstance(owner, cls)), None)


def _is_harmless(rule: Rule, frame: types.FrameType) -> bool:
    """Returns whether the arguments of a call keep it from having an effect."""
    if rule is _RANKS and frame.f_code is type(os.environ).__getitem__.__code__:
        return frame.f_locals.get("key") not in _RANK_VARIABLES
    # PyTorch's own subclasses, such as save_on_cpu and the one of checkpoints, return the saved values.
    hooks = type(frame.f_locals.get("self"))
    return rule is _SAVED and hooks is not saved_tensors_hooks and hooks.__module__.startswith("torch.")


def _passes_on(rule: Rule, file: str) -> bool:
    """Returns whether code of a file only passes a call on from other code."""
    return any(part in file for part in rule.through) or (is_standard(file) and _LOGGING not in file)


def _may(rule: Rule, file: str) -> bool:
    return is_fcdps(file) or is_torchs(file) or any(part in file for part in (*rule.may, _LOGGING))


def _name(code: types.CodeType) -> str:
    return getattr(code, "co_qualname", code.co_name)  # from Python 3.11 on


def _title(function: types.BuiltinFunctionType) -> str:
    owner = function.__self__
    name = owner.__name__ if isinstance(owner, (types.ModuleType, type)) else type(owner).__name__
    return f"{name}.{function.__name__}"
