# SPDX-License-Identifier: Apache-2.0
"""The runtime and fcdp-run, built from what scripts/pack-runtime packs, run a step that was compiled elsewhere."""

import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from harness import LONG, ROOT, Config, Workshop, environment, read_log, run_command, tool

TORCH = Path(torch.__file__).parent


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed") / "runtime"
    tool(ROOT / "scripts/pack-runtime", folder)
    return folder


def configure(packed: Path, build: Path, *options: str) -> str:
    """Returns the output of CMake, run without any of this project's own set-up."""
    command = ["cmake", "-S", packed / "runtime", "-B", build, "-G", "Ninja", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    return done.stdout


def test_what_is_packed(packed: Path) -> None:
    assert {entry.name for entry in packed.iterdir()} == {"runtime", "tools", "cmake", "third_party", "LICENSE"}
    assert len(list((packed / "third_party/licences").iterdir())) == 6
    done = subprocess.run([ROOT / "scripts/pack-runtime", packed], stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and "expected an empty or no folder" in done.stderr


def test_refuses_old_torch(packed: Path, tmp_path: Path) -> None:
    old = tmp_path / "torch"
    (old / "lib").mkdir(parents=True)
    (old / "lib/libtorch_cpu.so").touch()
    (old / "version.py").write_text("__version__ = '2.10.1+cu128'\n")
    said = configure(packed, tmp_path / "build", f"-DFCDP_TORCH_DIR={old}")
    assert "expected PyTorch 2.11 or newer, got 2.10.1" in said
    said = configure(packed, tmp_path / "other", f"-DFCDP_TORCH_DIR={tmp_path}")
    assert "no libtorch found" in said


# The build takes minutes of a processor, which CI has not.
@LONG
@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_runs_a_step_compiled_elsewhere(
    workshop: Workshop, packed: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Without optimization and with one source file for each library, which only makes the build faster."""
    build = tmp_path / "build"
    options = ["-DCMAKE_CXX_COMPILER=g++", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=", "-DFCDP_PRECOMPILE_HEADERS=OFF",
               "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=0"]
    if shutil.which("ccache"):
        options.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    said = configure(packed, build, *options, f"-DFCDP_TORCH_DIR={TORCH}")
    cache = (build / "CMakeCache.txt").read_text()
    for name in ("FCDP_GLOO_INCLUDE_DIR", "nlohmann_json_DIR", "CLI11_DIR"):
        assert f"{name}:PATH={packed}/third_party/" in cache, said
    # The same from one run of the tests to the next, for ccache.
    places = {"CCACHE_BASEDIR": str(tmp_path_factory.getbasetemp())}
    tool("cmake", "--build", build, timeout=1800, env=environment(places))

    config = Config("gpt", 2, 2, "fcdp")
    expected = workshop.run(config, 3)
    log, model = tmp_path / "log.jsonl", workshop.model(config.model)
    command = run_command(workshop.step(config), model.archive, model.inputs, 3, f"--json={log}")
    tool(build / "bin/fcdp-run", *command[1:])
    assert [step["loss"] for step in read_log(log)] == expected.losses
