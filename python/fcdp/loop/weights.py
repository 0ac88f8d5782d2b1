# SPDX-License-Identifier: Apache-2.0
"""Reads the weights of a step from files, also from folders whose tensors Transformers stores in another form."""

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from fcdp.errors import StepError
from fcdp.loop.job import Job
from fcdp.loop.step import Step
from fcdp.suggestions import did_you_mean


WeightPaths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class WeightFile:
    """A file or folder, and the module of the model that it is for."""

    path: str
    module: str = ""
    """The module's name, or "" for the whole model."""

    def argument(self, path: str) -> str:
        """Returns the argument of fcdp-run --weights for this file, which is at `path` now."""
        return f"{self.module}={path}" if self.module else path


def find_files(model: nn.Module, weights: WeightPaths | Mapping[str, WeightPaths]) -> list[WeightFile]:
    """Returns the files that a user names, for the whole model or module by module. Raises StepError."""
    if not isinstance(weights, Mapping):
        return [WeightFile(path) for path in _paths(weights)]
    known = dict(model.named_modules())
    for name in weights:
        if name not in known or name == "":
            near = did_you_mean(name, known)
            outer = ", ".join(repr(one) for one in dict(model.named_children()))
            raise StepError("misuse", f"weights: expected modules of the model, such as {outer}, got {name!r}{near}")
    return [WeightFile(path, module) for module, paths in weights.items() for path in _paths(paths)]


def _paths(paths: WeightPaths) -> list[str]:
    return [os.fspath(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]


def load_files(step: Step, model: nn.Module, files: Sequence[WeightFile], job: Job, cache: Path) -> None:
    """Collective. Reads files and folders. The first rank of each node converts folders into `cache`, and removes them.

    Warns on rank 0 of what a user should know. Raises StepError.
    """
    made: list[Path] = []

    def convert(file: WeightFile) -> bytes:
        converted = _converted(model.get_submodule(file.module), Path(file.path), cache)
        if converted is not None:
            made.append(converted)
        return str(converted or file.path).encode()

    try:
        read = [
            job.first_of_node_makes(f"weights/{i}", lambda file=file: convert(file)).decode() for i, file in enumerate(files)
        ]
        notes = step.load_weights([file.argument(path) for file, path in zip(files, read)])
    except StepError as error:
        step.fail(str(error))  # The other nodes' ranks would wait for this one.
        raise
    finally:
        for folder in made:
            shutil.rmtree(folder.parent, ignore_errors=True)
    if step.rank != 0:
        return
    for note in notes:
        for file, converted in zip(files, read):
            note = note.replace(converted, file.path)
        warnings.warn(f"weights: {note}", stacklevel=3)


def _converted(model: nn.Module, path: Path, cache: Path) -> Path | None:
    """Returns a new folder with the tensors that the model has, or None if the stored ones are."""
    if not (path / "config.json").is_file():
        return None
    # Only such folders need the formats of checkpoints.
    from fcdp.checkpoint import transformers_names
    from fcdp.checkpoint.errors import CheckpointError
    from fcdp.checkpoint.formats import open_complete
    from fcdp.checkpoint.huggingface import write_folder

    bare = _bare_model(model) if transformers_names.has_mapping() else None
    if bare is None:
        return None
    cache.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="weights-", dir=cache))
    try:
        stored = open_complete(path)
        plan = transformers_names.plan_to_model(bare, [state.name for state in stored.states])
        if plan.is_needed:
            write_folder(folder / "model", transformers_names.apply(plan, stored), None, None)
            return folder / "model"
    except (CheckpointError, OSError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise StepError("bad weights", f"{path} cannot be converted for the model in {cache}: {error}") from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    folder.rmdir()
    return None


def _bare_model(model: nn.Module) -> nn.Module | None:
    """Returns the model of Transformers in `model` without adapters and values.

    Returns None if its configuration does not make it: Transformers has no mapping for such a model.
    """
    from fcdp.checkpoint.transformers_names import without_values

    inner = _model_of_transformers(model)
    try:
        return None if inner is None else without_values(type(inner), inner.config)
    except Exception:  # It is somebody else's code, and raises what it likes. If names are missing, loading says so.
        return None


def _model_of_transformers(model: nn.Module) -> nn.Module | None:
    """Returns the only model of Transformers in `model`, which may be itself; models inside of it are its own."""
    # Nothing imports Transformers here that has not been imported.
    library = sys.modules.get("transformers.modeling_utils")
    if library is None:
        return None
    found: list[tuple[str, nn.Module]] = []
    for name, module in model.named_modules():
        is_inside = any(outer == "" or name.startswith(outer + ".") for outer, _ in found)
        if isinstance(module, library.PreTrainedModel) and not is_inside:
            found.append((name, module))
    return found[0][1] if len(found) == 1 else None
