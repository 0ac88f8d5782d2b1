# SPDX-License-Identifier: Apache-2.0
"""benchmarks/gpu: what its figures are made of, and a rehearsal on the CPU with small models."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from harness import ROOT

FOLDER = ROOT / "benchmarks" / "gpu"
sys.path.insert(0, str(FOLDER))

import figures  # noqa: E402
import model  # noqa: E402
import tokens  # noqa: E402
import weights  # noqa: E402

SHAPE = model.Shape(1, 8, 16, 2, 1, vocabulary=300, batch=2, time=5)


def test_goals() -> None:
    met = figures.Figure("a", "1", "one")
    missed = figures.Figure("longer", "2", "one", met=False)
    free = figures.Figure("b", "3")
    assert figures.missed([met, missed, free]) == 1
    assert figures.missed([figures.without_goal(missed)]) == 0
    assert figures.render([met, missed, free]).splitlines() == [
        "a       1  met     goal: one",
        "longer  2  MISSED  goal: one",
        "b       3  no goal",
    ]


@pytest.mark.parametrize(
    ("output", "code", "met"),
    [
        ("[  PASSED  ] 12 tests.\n", 0, True),
        ("[  PASSED  ] 9 tests.\n[  SKIPPED ] 3 tests, listed below:\n", 0, False),
        ("[  PASSED  ] 11 tests.\n[  FAILED  ] 1 test, listed below:\n", 1, False),
        ("[  PASSED  ] 0 tests.\n", 0, False),
        ("", -11, False),
    ],
)
def test_programs_that_skip_show_nothing(output: str, code: int, met: bool) -> None:
    assert figures.tests_figure("suite", output, code).met is met


def test_losses() -> None:
    assert figures.loss_figure("l", [4.0, 3.0], [4.0, 3.0001]).met
    assert not figures.loss_figure("l", [4.0, 3.0], [4.0, 3.001]).met
    assert not figures.loss_figure("l", [4.0], [4.0, 3.0]).met
    assert not figures.loss_figure("l", [], []).met
    assert not figures.loss_figure("l", [float("nan")], [float("nan")]).met
    assert figures.loss_figure("l", [4.0], [4.0], most=0).met


def test_seconds() -> None:
    log = [{"seconds": seconds} for seconds in (9.0, 9.0, 1.0, 3.0, 2.0, 0.5)]
    assert figures.seconds_of(log, 2) == 2.0
    assert figures.seconds_of(log[:3], 2) == 1.0


def test_ratios() -> None:
    assert figures.ratio_figure("r", 90.0, 100.0, 0.8).met
    assert not figures.ratio_figure("r", 79.0, 100.0, 0.8).met
    assert figures.memory_figure("m", 5 << 30, 4 << 30).met
    assert not figures.memory_figure("m", 7 << 30, 4 << 30).met
    assert figures.host_figure(1e-3, 2e-3, 100).value == "10.00 us (eager 20.00 us)"
    assert not figures.host_figure(3e-3, 2e-3, 100).met


def test_waits() -> None:
    short = figures.read_calls("kernels 1000\ncudaStreamSynchronize 7\ncudaMemcpyAsync of pageable memory 3\n")
    long = figures.read_calls("kernels 2000\ncudaStreamSynchronize 7\ncudaMemcpyAsync of pageable memory 3\n")
    per_step = figures.calls_of_steps(short, long, 10)
    assert per_step == {"kernels": 100, "cudaStreamSynchronize": 0, "cudaMemcpyAsync of pageable memory": 0}
    assert figures.waits_figure(per_step).met
    waiting = figures.waits_figure(per_step | {"cudaStreamSynchronize": 2.0})
    assert not waiting.met and waiting.value == "2 cudaStreamSynchronize"
    # A program whose calls were not seen would otherwise seem to wait for nothing.
    assert not figures.waits_figure({"kernels": 0, "cudaStreamSynchronize": 0}).met


def test_rules() -> None:
    rank = figures.read_calls("copies 8\ncollectives 5\ncaptures 2\nreleases 3\nviolations 0\n")
    assert figures.rules_figure([rank, rank], 2).met
    assert figures.rules_figure([rank, rank], 2).value == "0 violations on 2 ranks, 10 collectives, 16 copies, 4 captures"
    assert not figures.rules_figure([rank], 2).met
    assert not figures.rules_figure([rank, rank | {"captures": 0}], 2).met
    assert not figures.rules_figure([rank, rank | {"violations": 1}], 2).met
    assert not figures.rules_figure([], 2).met


def test_weights_and_tokens(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    weights.write(path, SHAPE, 3)
    loaded = weights.load(SHAPE, path, "cpu")
    again = tmp_path / "again.safetensors"
    weights.write(again, SHAPE, 3)
    assert path.read_bytes() == again.read_bytes()
    weights.write(again, SHAPE, 4)
    assert path.read_bytes() != again.read_bytes()
    assert loaded.embedding.weight.dtype == torch.bfloat16 and loaded.embedding.weight.std() > 0
    assert torch.equal(loaded.norm.weight, torch.ones(8, dtype=torch.bfloat16))
    assert loaded(*map(torch.zeros_like, tokens_of(tmp_path, 0))).isfinite()
    ids, labels = tokens_of(tmp_path, 1)
    assert torch.equal(ids.flatten()[1:], labels.flatten()[:-1]) and ids.max() < 300
    assert not torch.equal(ids, tokens_of(tmp_path, 0)[0])


def tokens_of(folder: Path, index: int) -> tuple[torch.Tensor, torch.Tensor]:
    path = folder / "tokens.u16"
    if not path.exists():
        tokens.write(path, SHAPE, batches=2, seed=1)
    return tokens.batch(path, SHAPE, index)


PROGRAM = """
#include <cuda_runtime_api.h>
#include <unistd.h>
int main(int count, char **words) {
  void *memory;
  for (int i = 0; i < 3; ++i)
    (void)cudaStreamSynchronize(0);
  (void)cudaMalloc(&memory, 4);
  if (count > 1) // as a rank of fcdp-run ends
    _exit(0);
}
"""


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
@pytest.mark.parametrize("words", [[], ["exits"]])
def test_calls_are_counted(tmp_path: Path, words: list[str]) -> None:
    """The CUDA runtime itself makes the calls; without a GPU it refuses all of them."""
    (tmp_path / "program.c").write_text(PROGRAM)
    nvcc = ["nvcc", "-x", "c", "-cudart"]
    shim, program = tmp_path / "syncs.so", tmp_path / "program"
    options = ["none", "--shared", "-Xcompiler", "-fPIC", "-o", shim, FOLDER / "syncs.c", "-ldl"]
    subprocess.run([*nvcc, *options], check=True, timeout=120)
    subprocess.run([*nvcc, "shared", "-o", program, tmp_path / "program.c"], check=True, timeout=120)
    there = Path(shutil.which("nvcc")).resolve().parents[1]
    libraries = ":".join(str(there / name) for name in ("lib", "lib64"))
    more = {"LD_PRELOAD": str(shim), "FCDP_CALLS": str(tmp_path / "calls"), "LD_LIBRARY_PATH": libraries}
    subprocess.run([program, *words], check=True, timeout=60, env=os.environ | more)
    (written,) = tmp_path.glob("calls.*")
    counts = figures.read_calls(written.read_text())
    assert (counts["cudaStreamSynchronize"], counts["cudaMalloc"]) == (3, 1)
    assert sum(counts.values()) == 4 and counts[figures.KERNELS] == 0


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_packed_sources_configure(tmp_path: Path) -> None:
    """Each folder that the packed CMake files name is packed."""
    source, nccl = tmp_path / "source", Path(torch.__file__).parents[1] / "nvidia/nccl"
    # In a process of its own: benchmarks/simulator has a module named steps, too.
    pack = "import pathlib, sys; sys.path.insert(0, sys.argv[1]); import prepare; prepare.pack_sources(pathlib.Path(sys.argv[2]))"
    subprocess.run([sys.executable, "-c", pack, FOLDER, source], check=True, timeout=120)
    options = ["-DFCDP_BUILD_COMPILER=OFF", "-DFCDP_CUDA=on", f"-DFCDP_NCCL_DIR={nccl}", f"-DCMAKE_PREFIX_PATH={source}/third_party"]
    options += [f"-DFCDP_TORCH_DIR={Path(torch.__file__).parent}", "-DCMAKE_C_COMPILER=gcc", "-DCMAKE_CXX_COMPILER=g++"]
    command = ["cmake", "-S", source, "-B", tmp_path / "build", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    done = subprocess.run(["cmake", "--build", tmp_path / "build", "--target", "help"], capture_output=True, text=True, timeout=60)
    assert all(f"... {target}" in done.stdout for target in ("fcdp_contracts_test", "fcdp_cuda_test", "fcdp_cuda_job_test", "fcdp-run"))


def test_rehearsal(tmp_path: Path) -> None:
    folder = tmp_path / "gpu"
    subprocess.run([sys.executable, FOLDER / "prepare.py", folder, "--tiny"], check=True, timeout=600)
    again = subprocess.run([sys.executable, FOLDER / "prepare.py", folder], stderr=subprocess.PIPE, text=True, timeout=60)
    assert again.returncode == 1 and "expected an empty or no folder" in again.stderr
    command = [sys.executable, folder / "run.py", "--device=cpu", "--steps=1", "--parts", "exactness", "llama", "packed", "caching", "moved", "host-work"]
    done = run([*command, f"--fcdp-run={ROOT / 'build/bin/fcdp-run'}"])
    assert done.returncode == 0, done.stdout
    assert "\n0 goals missed" in done.stdout and "MISSED" not in done.stdout
    assert done.stdout.count("met     goal:") == 7
    # A part that fails is a goal missed, and the others still run.
    done = run([*command, "--fcdp-run=/bin/false"])
    assert done.returncode == 1
    assert "\n6 goals missed" in done.stdout and done.stdout.count("exit code 1") == 6


def run(command: list[object]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, timeout=900)
