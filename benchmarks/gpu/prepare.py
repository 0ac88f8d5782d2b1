#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the folder that takes benchmarks/gpu to a machine with a GPU.

It has compiled steps, the runtime's sources with the tests that need a GPU, and run.py, which builds and runs them
there. It has no weights, because they are made from a seed.
"""

import argparse
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import astuple
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import fcdp

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).resolve().parent))

from model import Shape, make  # noqa: E402
from steps import COMPILED_OPTIMIZER, REHEARSED, STEPS, Prepared, Step, save, tiny  # noqa: E402

# The test folders that need neither libzip nor Python.
TESTS = ["CMakeLists.txt", "contracts", "runtime/CMakeLists.txt"]
TESTS += [f"runtime/{name}" for name in ("core", "streams", "codec", "cpu", "store", "transports", "job", "cuda", "contracts")]
GOOGLE_TEST = Path("/usr/src/googletest")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: .venv/bin/python benchmarks/gpu/prepare.py /tmp/fcdp-gpu && tar -C /tmp -cz fcdp-gpu > fcdp-gpu.tar.gz\n"
        "then, there: tar -xzf fcdp-gpu.tar.gz && python3 fcdp-gpu/run.py",
    )
    parser.add_argument("folder", type=Path, help="folder to write into; it must be new or empty")
    parser.add_argument(
        "--tiny", action="store_true", help="prepare small models for run.py --device=cpu, without sources"
    )
    parser.add_argument(
        "--build-with",
        type=Path,
        metavar="PYTHON",
        help="build the runtime here, too, with the PyTorch for CUDA of this Python. It should be of the other machine's version, "
        "and the folder have the same path there; otherwise the runtime is built there",
    )
    args = parser.parse_args()
    folder = args.folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        print(f"prepare: error: expected an empty or no folder '{folder}', got something else", file=sys.stderr)
        return 1
    if not args.tiny:
        pack_sources(folder / "source")
    # To rehearse, one model of each family is enough.
    steps = [tiny(step) for step in STEPS if step.shape in REHEARSED] if args.tiny else STEPS
    prepare_steps(steps, folder)
    for file in Path(__file__).parent.iterdir():
        if file.suffix in (".py", ".c") and file.name != "prepare.py":
            shutil.copy(file, folder)
    shutil.copy(ROOT / "scripts/gpu", folder)
    if args.build_with is not None:
        build(folder, args.build_with)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{folder}: {size / 1e6:.0f} MB; there: python3 run.py")
    return 0


def pack_sources(source: Path) -> None:
    if not GOOGLE_TEST.is_dir():
        raise SystemExit(f"prepare: error: expected GoogleTest's sources in {GOOGLE_TEST}, got none; install libgtest-dev")
    source.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([ROOT / "scripts/pack-runtime", source], check=True, stdout=subprocess.DEVNULL)
    shutil.copy(ROOT / "CMakeLists.txt", source)
    shutil.copy(ROOT / "tools/CMakeLists.txt", source / "tools")
    shutil.copytree(ROOT / "examples/embed", source / "examples/embed")
    for name in TESTS:
        target = source / "test" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / "test" / name).is_dir() else shutil.copy)(ROOT / "test" / name, target)
    shutil.copytree(GOOGLE_TEST, source / "third_party/googletest", symlinks=False)


def build(folder: Path, python: Path) -> None:
    """Builds in the folder as run.py does there, and removes files that only the build needs."""
    program = "import sys; sys.path.insert(0, sys.argv[1]); import libraries, run; run.build(run.Path(sys.argv[2]), libraries.torch_folder())"
    subprocess.run([python, "-c", program, folder, folder / "build"], check=True)
    shutil.rmtree(folder / "build/googletest")
    for file in (folder / "build").rglob("*"):
        if file.suffix in (".o", ".a", ".gch", ".pch"):
            file.unlink()
    for file in (folder / "build/build/bin").iterdir():
        subprocess.run(["strip", "--strip-debug", file], check=True)


def prepare_steps(steps: list[Step], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    prepared = []
    with tempfile.TemporaryDirectory() as name:
        archive = Path(name) / "step.pt2"
        # Steps of one shape follow each other, so that each shape is exported once.
        for shape, group in itertools.groupby(sorted(steps, key=lambda step: astuple(step.shape)), key=lambda step: step.shape):
            inputs = export(shape, archive)
            prepared += [compile_step(step, target, archive, inputs, folder) for step in group for target in step.targets]
    save(folder / "steps.json", prepared)


def export(shape: Shape, archive: Path) -> tuple[str, ...]:
    """Exports under FakeTensorMode, so the archive has no weights. Returns the names of the inputs."""
    with FakeTensorMode():
        model = make(shape)
    ids = torch.zeros(shape.batch, shape.time, dtype=torch.int64)
    return fcdp.export(model, (ids, ids.clone()), archive, check=False).inputs


def compile_step(step: Step, target: str, archive: Path, inputs: tuple[str, ...], folder: Path) -> Prepared:
    out, tool = folder / f"{step.name}-{target}.so", ROOT / "build/bin/fcdp-compile"
    command = [tool, archive, f"--target={target}", f"--nodes={step.nodes}"]
    command += [f"--micro-batches={step.micro_batches}", f"--optimizer={COMPILED_OPTIMIZER}", *step.options]
    subprocess.run([*command, "-o", out], check=True, stdout=subprocess.DEVNULL)
    text = subprocess.run([tool, out, "--emit=plan-json"], check=True, stdout=subprocess.PIPE, text=True).stdout
    plan = json.loads(text)
    calls = sum(op["body_type"] == "aten_call" for op in plan["ops"])
    planned = plan["planned"]["device_bytes"]
    return Prepared(
        step.name, target, out.name, step.shape, step.nodes, step.micro_batches, inputs, calls, planned
    )


if __name__ == "__main__":
    sys.exit(main())
