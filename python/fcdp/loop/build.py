# SPDX-License-Identifier: Apache-2.0
"""Exports and compiles a step, and keeps what was compiled for the next job."""

import contextlib
import hashlib
import subprocess
import warnings
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from fcdp.call import Call
from fcdp.errors import StepError
from fcdp.exporter import Exported, check_with_values, export_without_values
from fcdp.loop.cache import place, read_step, work_folder
from fcdp.loop.history import History, is_profile, should_plan_by_profile
from fcdp.loop.install import find_install
from fcdp.loop.planning import AUTO, Planning, describe_choice, show_choice
from fcdp.modes import in_mode, warn_of_evaluation_mode
from fcdp.progress import shown_progress, start_stage
from fcdp.scaled import UnitChecks
from fcdp.unreached import unreached_by_all, warn_of_unreached, without_unreached

# The parts of an archive that do not change the step.
_IGNORED = ("data/sample_inputs/", ".data/serialization_id")
# Options whose values are files that a plan depends on.
_FILES = ("--cluster=", "--profile=")
@dataclass(frozen=True)
class Built:
    """A compiled step, and where the job keeps what its first steps show."""

    path: Path
    history: History | None = None
    profile: Path | None = None
    """The file to which the profile of the first steps is to be written."""
    is_by_profile: bool = False
    """Whether the step is planned by times of an earlier job."""


@torch.inference_mode(False)
def build(
    model: nn.Module,
    call: Call,
    options: list[str],
    cache: Path,
    check: bool,
    evaluation: Call | None = None,
    greater: Sequence[Call] = (),
    planning: Planning = Planning("fcdp"),
    profile: Path | None = None,
    keeps_history: bool = False,
) -> Built:
    """Returns the step's object in `cache`, where it is found again if the exported graphs and options are the same.

    It is made again if it is damaged, and is elsewhere if the cache cannot take it.

    `greater` are calls of further shapes of the step, from smaller to greater ones. `evaluation` is a call that the
    step evaluates, too. `check` compares what was exported with eager PyTorch before it is compiled. Warns of a model
    in evaluation mode, and of parameters that the losses do not depend on, whose groups `options` lose, and of units of
    a model without weights that cannot be compared. Raises ExportError and StepError.

    `profile` is a file of the user's, with which the step is planned if it is a profile. With `keeps_history`, a step
    that `auto` plans may be planned by the times of earlier jobs.
    """
    warn_of_evaluation_mode(model)
    with shown_progress(), work_folder(cache) as folder:
        programs: list[Path | str] = []
        archives, checks, unreached = [], [], []

        def add(call: Call, name: str, train: bool) -> None:
            archives.append(folder / name)
            exported, compare = _export(model, call, archives[-1], train)
            checks.append(compare)
            if train:
                unreached.append(exported.unreached)
            programs.append(archives[-1] if train else f"--eval={archives[-1]}")

        for index, shape in enumerate([call, *greater]):
            add(shape, f"step-{index}.pt2", train=True)
        if evaluation is not None:
            add(evaluation, "evaluation.pt2", train=False)
        left_out = unreached_by_all(unreached)
        options = without_unreached(options, left_out)
        warn_of_unreached(left_out)
        options = [*planning.options, *options]
        options, built = _choose_plan(archives, options, cache, profile, keeps_history and planning.strategy == AUTO)
        if planning.strategy == AUTO:
            start_stage("predicting the step")
            show_choice(describe_choice(archives[0], options, planning, built.is_by_profile))
        if read_step(built.path) is not None:
            return built
        if check:
            start_stage("comparing with eager PyTorch")
            unchecked: dict[str, str] = {}
            for compare in checks:
                unchecked.update(compare().unchecked)
            _warn_of_unchecked(unchecked)
        start_stage("compiling the step")
        written = folder / built.path.name
        _compile(programs, options, written)
        return replace(built, path=place(built.path, written.read_bytes()))


def _choose_plan(
    archives: list[Path], options: list[str], cache: Path, profile: Path | None, keeps_history: bool
) -> tuple[list[str], Built]:
    """Returns the compiler's options, by a profile or without one, and what they make."""

    def by(profile: Path) -> list[str]:
        return [*options, f"--profile={profile}"]

    def object_of(options: list[str]) -> Path:
        return cache / f"{_digest(archives, options)}.so"

    first = object_of(options)
    if profile is not None and is_profile(profile):
        return by(profile), Built(object_of(by(profile)), is_by_profile=True)
    if profile is not None or not keeps_history:
        return options, Built(first, profile=profile)
    history = History(cache / "history" / first.stem)
    if not is_profile(history.profile):
        return options, Built(first, history, history.profile)
    later = object_of(by(history.profile))
    if should_plan_by_profile(history, first.name, later.name, archives[0], options):
        return by(history.profile), Built(later, history, is_by_profile=True)
    return options, Built(first, history)


def _export(model: nn.Module, call: Call, path: Path, train: bool) -> tuple[Exported, Callable[[], UnitChecks]]:
    """Exports a step or an evaluation. Returns what was exported, and what compares it with eager PyTorch."""
    with contextlib.nullcontext() if train else in_mode(model, training=False):
        exported, program = export_without_values(model, call, path, train)

    def compare() -> UnitChecks:
        with contextlib.nullcontext() if train else in_mode(model, training=False):
            return check_with_values(program, exported, model, call, train)

    return exported, compare


def _warn_of_unchecked(unchecked: dict[str, str]) -> None:
    """Names one unit of each reason: many are alike."""
    units: dict[str, list[str]] = {}
    for unit, reason in unchecked.items():
        units.setdefault(reason, []).append(f"unit '{unit}'" if unit else "what is around the units")
    for reason, (first, *others) in units.items():
        more = f" and {len(others)} more" if others else ""
        warnings.warn(f"not compared with eager PyTorch: {first}{more}: {reason}", stacklevel=4)


def _digest(archives: list[Path], options: list[str]) -> str:
    """Identifies the archives' programs, the options with the contents of their files, and the compiler."""
    digest = hashlib.sha256(repr([_with_content(option) for option in options]).encode())
    compiler = find_install().compiler.stat()
    digest.update(f"{compiler.st_size} {compiler.st_mtime_ns}".encode())
    for archive in archives:
        with zipfile.ZipFile(archive) as parts:
            for name in sorted(parts.namelist()):
                if not any(ignored in name for ignored in _IGNORED):
                    content = parts.read(name)
                    digest.update(f"{name} {len(content)}".encode() + content)
    return digest.hexdigest()


def _with_content(option: str) -> str:
    """Returns an option with the content of the file that it names in place of its path."""
    prefix = next((name for name in _FILES if option.startswith(name)), None)
    with contextlib.suppress(OSError):  # of the name of a preset; the compiler says what else is wrong
        if prefix is not None:
            return prefix + hashlib.sha256(Path(option.removeprefix(prefix)).read_bytes()).hexdigest()
    return option


def _compile(programs: list[Path | str], options: list[str], out: Path) -> None:
    command = [str(find_install().compiler), *map(str, programs), *options, "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        said = _without_paths(done.stderr.strip(), programs)
        raise StepError("compile", said or f"fcdp-compile ended with code {done.returncode}")


def _without_paths(text: str, programs: list[Path | str]) -> str:
    """Returns the compiler's message without names of temporary archives."""
    shapes = [str(program) for program in programs if isinstance(program, Path)]
    names = [(path, "the step" if index == 0 else f"the step of more_inputs[{index - 1}]") for index, path in enumerate(shapes)]
    names += [(str(one).removeprefix("--eval="), "the evaluation") for one in programs if not isinstance(one, Path)]
    for path, name in names:
        text = text.replace(f"{name} '{path}'", name).replace(f"'{path}'", name).replace(path, name)
    return text
