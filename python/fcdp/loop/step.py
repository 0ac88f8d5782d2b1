# SPDX-License-Identifier: Apache-2.0
"""Implements the step that fcdp.compile returns."""

import atexit
import hashlib
import json
import os
import sys
import time
import warnings
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import torch
from torch import nn

from fcdp.errors import StepError
from fcdp.loop.arguments import Arguments, Batch
from fcdp.loop.history import StepWatch
from fcdp.loop.job import Job
from fcdp.loop.library import call
from fcdp.loop.sharded import is_sharded, rows_of, to_dtensor
from fcdp.loop.states import VALUE, Ranks, match_optimizer, match_values

_open_step: "weakref.ref[Step] | None" = None

# How long a program waits at its end for its own threads.
_IDLE_SECONDS = 10.0
_POLL_SECONDS = 0.01

# Members of a checkpoint's job that the session writes and reads.
_OF_THE_SESSION = ("learning_rate", "schedule", "loss_scaling", "loss_scale", "growth_tracker")
_SCALER_KEYS = ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker")


class Step:
    """One rank of a compiled training step.

    "Collective" methods are called by all ranks, in the same order. All raise StepError. After one of a method that
    loads something, or one that is not "misuse", "busy" or "input mismatch", the step is of no more use.

    A step takes one call at a time, of the process that has compiled it: a call by a second thread is "busy", and one
    in a forked process is "misuse".

    `rank` and `num_ranks` are what a DistributedSampler needs. `figures` are those of the last step: "loss",
    "learning_rate", "seconds", bytes sent between ("inter_bytes") and within nodes ("intra_bytes"), and more.
    `evaluation_figures` are those of the last evaluation, and `evaluation_losses` the loss of each batch of this rank
    in it.
    """

    def __init__(
        self, session: Any, arguments: Arguments, job: Job, evaluation: Arguments | None = None, watch: StepWatch | None = None
    ):
        """`watch` keeps what the first steps show, on rank 0."""
        self._session = session
        self._watch = watch
        self._arguments = arguments
        self._evaluation = evaluation
        self._states = call(session.states)
        self._ranks = Ranks(job.launch.rank, job.launch.num_ranks)
        self.rank: int = job.launch.rank
        self.num_ranks: int = job.launch.num_ranks
        self.figures: dict[str, float] = {}
        self.evaluation_figures: dict[str, float] = {}
        self.evaluation_losses: list[float] = []
        self._process = os.getpid()
        global _open_step
        _open_step = weakref.ref(self)
        _close_at_exit(self)

    @property
    def micro_batches(self) -> int:
        return self._arguments.micro_batches

    @property
    def num_steps(self) -> int:
        """Optimizer steps that were made, those before a loaded checkpoint included."""
        return call(self._open().num_steps)

    def __call__(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Collective. Makes one optimizer step and returns the loss, the mean over ranks and micro-batches.

        Takes the arguments of the model that was compiled. With several micro-batches, tensors have the rows of all,
        one micro-batch after the other.
        """
        batch = self._arguments.by_name(args, kwargs)
        return self._run(self._arguments.split(batch))

    def run(self, batches: Sequence[Batch]) -> torch.Tensor:
        """Collective. Makes one optimizer step of a batch for each micro-batch."""
        if len(batches) != self.micro_batches:
            raise StepError("input mismatch", f"expected {self.micro_batches} micro-batches, got {len(batches)}")
        return self._run([leaf for batch in batches for leaf in self._arguments.of_batch(batch)])

    def evaluate(self, batches: Iterable[Batch]) -> torch.Tensor:
        """Collective. Returns the mean loss of `batches`, as many on each rank, without training on them.

        Needs eval_inputs of fcdp.compile, of which each batch has the arguments. Parameters are gathered for the first
        batch, so one call for all batches is the fastest.
        """
        if self._evaluation is None:
            raise StepError("misuse", "expected a step that was compiled with eval_inputs")
        inputs = [self._evaluation.of_batch(batch) for batch in batches]
        leaves = [leaf for of_batch in inputs for leaf in of_batch]
        self.evaluation_figures = dict(call(self._open().evaluate, len(inputs), leaves))
        self.evaluation_losses = call(self._open().evaluation_losses)
        return _number(self.evaluation_figures["loss"])

    def _run(self, inputs: list[torch.Tensor]) -> torch.Tensor:
        self.figures = dict(call(self._open().step, inputs))
        if self._watch is not None:
            self._watch.after_step(self._open(), self.figures["seconds"])
        return _number(self.figures["loss"])

    @property
    def learning_rate(self) -> float:
        """The rate of the next step. Setting it sets the base rate, of which a schedule and groups take factors."""
        return call(self._open().learning_rate)

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        call(self._open().set_learning_rate, float(rate))

    @property
    def schedule(self) -> str:
        """The schedule of the next step, also if it is that of a checkpoint."""
        return call(self._open().schedule)

    @schedule.setter
    def schedule(self, text: str) -> None:
        """Sets the factors of the base rate: "cosine,warmup=100,steps=10000,min=0.1", as fcdp-run --schedule does."""
        call(self._open().set_schedule, text)

    def load_model(self, model: nn.Module) -> None:
        """Collective. Sets parameters and buffers from a model that has the same values on all ranks.

        Before training.
        """
        tensors = dict(model.named_parameters(remove_duplicate=False))
        tensors.update(model.named_buffers(remove_duplicate=False))
        empty = next((name for name, tensor in tensors.items() if tensor.device.type == "meta"), None)
        if empty is not None:
            self._agree(f"the model's '{empty}' has no value: give fcdp.compile weights=PATH", {})
        self._set_values(tensors, is_model=True)

    def warn_of_lost_updates(self) -> None:
        """Collective. Rank 0 warns if updates of the learning rate are too small for the type of trained parameters."""
        line = call(self._open().lost_updates)
        if line and self.rank == 0:
            warnings.warn(line, stacklevel=3)

    def load_state_dict(self, state_dict: Mapping[str, torch.Tensor]) -> None:
        """Collective. Sets what `state_dict` returned, given whole or as DTensors on all ranks.

        Before the first step only.
        """
        self._set_values(state_dict, is_model=False)

    def _set_values(self, tensors: Mapping[str, torch.Tensor], is_model: bool) -> None:
        found, problems = match_values(self._states, tensors, self._ranks, is_model)
        self._agree(problems.text(), found)
        for name, tensor in found.items():
            self._set_state(name, VALUE, tensor)

    def _set_state(self, name: str, role: str, tensor: torch.Tensor) -> None:
        """Collective if the tensor is a DTensor."""
        if is_sharded(tensor):
            rows = rows_of(tensor, self.num_ranks)
            if rows is not None:
                return call(self._open().set_rows, name, role, rows)
            tensor = tensor.full_tensor()
        call(self._open().set_state, name, role, tensor)

    def _agree(self, problem: str, tensors: Mapping[str, torch.Tensor]) -> None:
        """Collective. Fails on all ranks if one has a problem, or other tensors than rank 0: each keeps its part of
        them.
        """
        try:
            call(self._open().agree, problem, "" if problem or self.num_ranks == 1 else _digest(tensors))
        except StepError as error:
            if error.code != "busy":
                self._session = None  # It has ended, on all ranks.
            raise

    def load_weights(self, paths: Sequence[str]) -> list[str]:
        """Collective. Reads values from files or folders, as fcdp-run --weights does; returns notes for the user."""
        return call(self._open().load_weights, list(paths))

    def save_weights(self, path: str, only_trained: bool = False) -> None:
        """Collective. Rank 0 writes a safetensors file, or a folder of them if `path` ends with a slash."""
        call(self._open().save_weights, path, only_trained)

    def state_dict(self, sharded: bool = False) -> dict[str, torch.Tensor]:
        """Collective. Returns parameters and persistent buffers on rank 0, as model.state_dict() has them; {}
        elsewhere.

        A tied parameter is there under each of its names. sharded: parameters are DTensors on all ranks, each of which
        has some rows, as FSDP2 has them. Buffers are whole.
        """
        values: dict[str, torch.Tensor] = {}
        for names, value in self.each_value(sharded):
            if value is not None:
                values.update(dict.fromkeys(names, value))
        return values

    def each_value(
        self, sharded: bool = False, but: Collection[str] = ()
    ) -> Iterator[tuple[Sequence[str], torch.Tensor | None]]:
        """Collective. Yields what `state_dict` returns one by one, with its names: rank 0 has one tensor at a time.

        All ranks go through all of it. The value is None on other ranks than 0 if it is whole. `but`: names that are
        left out, on all ranks the same.
        """
        for state in self._states:
            names, role, _, persistent = state
            if role == VALUE and persistent and not any(name in but for name in names):
                yield names, self._get_state(state, sharded)

    def optimizer_state_dict(self, sharded: bool = False) -> dict[str, dict[str, torch.Tensor]]:
        """Collective. Returns {parameter: {"step": ..., "exp_avg": ..., ...}} on rank 0, and {} elsewhere.

        The entries are those of torch.optim; "master" is the parameter in float32, if it has one. sharded: they are
        DTensors on all ranks.
        """
        states: dict[str, dict[str, torch.Tensor]] = {}
        for state in self._states:
            names, role, _, _ = state
            if role == VALUE:
                continue
            value = self._get_state(state, sharded)
            if value is not None:
                count = call(self._open().get_update_count, names[0])
                entry = states.setdefault(names[0], {"step": _number(count, torch.float32)})
                entry[role] = value
        return states

    def _get_state(self, state: tuple[Any, ...], sharded: bool) -> torch.Tensor | None:
        """Collective. Returns a state on rank 0, or as a DTensor on all ranks."""
        (name, *_), role, whole, _ = state
        if not sharded:
            return call(self._open().get_state, name, role)
        rows = call(self._open().get_rows, name, role)
        is_buffer = name in call(self._open().buffer_names)
        return rows if is_buffer else to_dtensor(rows, whole, self.rank, self.num_ranks)

    def load_optimizer_state_dict(self, states: Mapping[str, Mapping[str, torch.Tensor]]) -> None:
        """Collective. Sets what `optimizer_state_dict` returned, given whole or as DTensors on all ranks.

        All states of all parameters that are trained are needed, with the number of updates ("step"), which is one for
        all of a bucket. Masters may be left out, and start from the parameters then. Before the first step only.
        """
        matched, problems = match_optimizer(self._states, call(self._open().counted), states, self._ranks)
        counts = {f"{name}/step": torch.tensor(count, device="cpu") for name, count in matched.updates.items()}
        self._agree(problems.text(), {f"{name}/{role}": value for (name, role), value in matched.tensors.items()} | counts)
        for (name, role), value in matched.tensors.items():
            self._set_state(name, role, value)
        for name, count in matched.updates.items():
            call(self._open().set_update_count, name, count)

    def scaler_state_dict(self) -> dict[str, float]:
        """Returns the loss scale as torch.amp.GradScaler.state_dict does; {} if the step does not scale its loss.

        The factors of a scale that does not change are 1.
        """
        found = call(self._open().loss_scale)
        return {} if found is None else dict(zip(_SCALER_KEYS, found))

    def load_scaler_state_dict(self, state: Mapping[str, float]) -> None:
        """Collective. Sets what `scaler_state_dict` or GradScaler.state_dict returned. Before the first step only."""
        missing = [key for key in _SCALER_KEYS if key not in state]
        if missing:
            self._agree(f"the state of the loss scale has no '{missing[0]}'", {})
        scale, growth, backoff, interval, tracker = (state[key] for key in _SCALER_KEYS)
        self._agree("", {"scaler": _number([scale, growth, backoff, interval, tracker])})
        is_fixed = growth == backoff == 1
        settings = f"init={scale!r},growth={growth!r},backoff={backoff!r},interval={interval}"
        call(self._open().set_loss_scale, repr(scale) if is_fixed else settings, int(tracker))

    def open_checkpoints(self, folder: str, keep: int | None = None) -> None:
        """Collective. Prepares `save`: the folder, and host memory for a copy of the states. After `resume`."""
        call(self._open().open_checkpoints, folder, keep)

    def save(self, job: Mapping[str, Any] | None = None) -> None:
        """Collective. Copies all states after the last step and has a thread write them. `job` is kept beside them."""
        taken = [key for key in _OF_THE_SESSION if key in (job or {})]
        if taken:
            raise StepError("misuse", f"job: '{taken[0]}' is the session's own in checkpoints: choose another name")
        call(self._open().save_checkpoint, json.dumps(dict(job or {})))

    def finish_save(self) -> None:
        """Collective. Waits until the last checkpoint is complete."""
        call(self._open().finish_checkpoint)

    def resume(self, path: str) -> dict[str, Any] | None:
        """Collective. Loads a checkpoint, or the latest one of a folder, and returns the `job` it was saved with.

        Returns None if the folder has none. The checkpoint may be of another strategy and number of ranks.
        """
        loaded = call(self._open().load_checkpoint, path)
        if loaded is None:
            return None
        if not loaded[2]:
            text = "this checkpoint has no digests, as an older release saved it: its contents were not compared with anything"
            warnings.warn(f"{path}: {text}", stacklevel=2)
        return {key: value for key, value in json.loads(loaded[1]).items() if key not in _OF_THE_SESSION}

    def close(self) -> None:
        """Collective. Ends the session when all ranks are here. A second call does nothing, and one after the step has
        failed.

        Ranks that have made more calls than this one end with an error that names it.
        """
        if self._session is None:
            return
        if self._watch is not None:
            self._watch.finish()
        try:
            call(self._session.close)
        except StepError as error:
            if error.code == "busy":
                raise
            self._session = None
            # The program has seen the error that ended it. A forked child has not opened it.
            if error.code != "misuse" or self._process != os.getpid():
                raise
        self._session = None

    def fail(self, message: str) -> None:
        """Tells the other ranks that this one cannot go on, and closes the step.

        Any thread may call it. A call that another thread is in raises StepError with the message.
        """
        if self._session is not None:
            session, self._session = self._session, None
            try:
                call(session.fail, message)
            except StepError:
                pass  # It raises the error that it was given.

    def __enter__(self) -> "Step":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.fail(f"{kind.__name__}: {error}")

    def _open(self) -> Any:
        if self._session is None:
            raise StepError("misuse", "the step is closed")
        return self._session


def require_none_open() -> None:
    """Raises StepError if this process has an open step: libtorch's random state and threads belong to the process."""
    step = _open_step() if _open_step is not None else None
    if step is not None and step._session is not None and step._process == os.getpid():
        raise StepError("misuse", "expected no open step in this process, got one: close it before another is compiled")


def _number(value: float | Sequence[float], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Returns a tensor on the CPU, whatever the default device is."""
    return torch.tensor(value, dtype=dtype, device="cpu")


def _digest(tensors: Mapping[str, torch.Tensor]) -> str:
    """Returns a digest of what must be the same on all ranks: whole tensors, and how others are sharded."""
    digest = hashlib.blake2b()
    for name, tensor in sorted(tensors.items()):
        if is_sharded(tensor):
            digest.update(f"{name} {tensor.device_mesh.shape} {tensor.placements}".encode())
            continue
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        values = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
        digest.update(values.reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _close_at_exit(step: Step) -> None:
    """Closes a step that the program leaves open, or tells the other ranks of the exception that ends it."""
    reference = weakref.ref(step)

    def close() -> None:
        left = reference()
        if left is None or left._session is None or left._process != os.getpid():
            return
        session, raised = left._session, getattr(sys, "last_value", None)
        if raised is not None:
            left.fail(f"{type(raised).__name__}: {raised}")
        elif session.is_busy():
            left.fail("the program ended while a thread of it was in a call of the step")
        else:
            left.close()
        _wait_until_idle(session)

    atexit.register(close)


def _wait_until_idle(session: Any) -> None:
    """Waits until no thread is in a call, so that none comes back from it to an interpreter that has ended."""
    end = time.monotonic() + _IDLE_SECONDS
    while session.is_busy() and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
    time.sleep(_POLL_SECONDS)
