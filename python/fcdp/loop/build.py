# SPDX-License-Identifier: Apache-2.0
"""Exports and compiles a step, and keeps what was compiled for the next job."""

import hashlib
import os
import subprocess
import tempfile
import zipfile
from pathlib import Path

from torch import nn

from fcdp.call import Call
from fcdp.errors import StepError
from fcdp.exporter import check_with_values, export_without_values
from fcdp.loop.install import find_install

# The parts of an archive that do not change the step.
_IGNORED = ("data/sample_inputs/", ".data/serialization_id")


def build(model: nn.Module, call: Call, options: list[str], cache: Path, check: bool) -> Path:
    """Returns the step's object in `cache`, where it is found again if the exported graph and options are the same.

    `check` compares the exported step with eager PyTorch before it is compiled. Raises ExportError and StepError.
    """
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".step-") as folder:
        archive = Path(folder) / "step.pt2"
        exported, program = export_without_values(model, call, archive)
        made = cache / f"{_digest(archive, options)}.so"
        if not made.exists():
            if check:
                check_with_values(program, exported, model, call)
            written = Path(folder) / made.name
            _compile(archive, options, written)
            os.replace(written, made)
    return made


def _digest(archive: Path, options: list[str]) -> str:
    """Identifies the archive's step, the options and the compiler."""
    digest = hashlib.sha256(repr(options).encode())
    compiler = find_install().compiler.stat()
    digest.update(f"{compiler.st_size} {compiler.st_mtime_ns}".encode())
    with zipfile.ZipFile(archive) as parts:
        for name in sorted(parts.namelist()):
            if not any(ignored in name for ignored in _IGNORED):
                content = parts.read(name)
                digest.update(f"{name} {len(content)}".encode() + content)
    return digest.hexdigest()


def _compile(archive: Path, options: list[str], out: Path) -> None:
    command = [str(find_install().compiler), str(archive), *options, "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise StepError("compile", done.stderr.strip() or f"fcdp-compile ended with code {done.returncode}")
