# SPDX-License-Identifier: Apache-2.0
"""Installs peers into a virtual environment of their own, which also sees the packages of this one.

So torch is the same for all, and what a peer brings cannot change what fcdp uses.
"""

import functools
import os
import subprocess
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from steps import ROOT

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
ENVIRONMENT = ROOT / "build" / "peers" / "venv"
EXTENSIONS = ROOT / "build" / "peers" / "extensions"
BUILDS = {"deepspeed": "from deepspeed.comm.torch import build_shm_op; build_shm_op()"}
"""Programs that make a package build its extensions now. It would otherwise build them in its first run."""


class NotInstalled(RuntimeError):
    """A package cannot be installed. The message is pip's."""


def requirements() -> dict[str, str]:
    """Returns the pinned versions by package."""
    lines = [line.strip() for line in REQUIREMENTS.read_text().splitlines()]
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


@functools.cache
def python_with(package: str) -> Path:
    """Returns a Python that has the package, which is installed if it is not there."""
    python = _environment()
    wanted = requirements()[package]
    query = f"from importlib.metadata import version; print(version({package!r}))"
    if _run(python, "-c", query).stdout.strip() != wanted:
        print(f"installing {package}=={wanted}", flush=True)
        options = [f"--constraint={path}" for path in (REQUIREMENTS, ROOT / "scripts/requirements.txt")]
        options += ["--quiet", "--disable-pip-version-check"]
        done = _run(python, "-m", "pip", "install", *options, f"{package}=={wanted}")
        _check(done, f"pip cannot install {package}=={wanted}")
    if package in BUILDS:
        os.environ["TORCH_EXTENSIONS_DIR"] = str(EXTENSIONS)
        _check(_run(python, "-c", BUILDS[package]), f"{package}=={wanted} cannot build its extension")
    return python


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True)


def _check(done: subprocess.CompletedProcess[str], what: str) -> None:
    if done.returncode != 0:
        lines = done.stderr.splitlines()
        errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
        raise NotInstalled(f"{what}: {errors[-1] if errors else f'exit code {done.returncode}'}")


def versions(packages: set[str]) -> dict[str, str]:
    """Returns those of torch, Transformers and PEFT, and of peers."""
    found = {}
    for name in ("torch", "transformers", "peft"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found | {name: pinned for name, pinned in requirements().items() if name in packages}


def _environment() -> Path:
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        folder = Path(_run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
        (folder / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python
