# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu: what it says of stages whose programs are made up here, and that it ends without a GPU."""

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "gpu"
FIRST = ["environment", "build", "contracts", "gpu", "exactness", "llama", "speeds", "probe", "profile"]
SECOND = ["rules", "jobs", "streams", "checked", "caching", "graphs", "host", "memory", "packed"]
THIRD = ["operations", "sizes", "memcheck", "racecheck", "peers-gpt2", "peers-llama"]
PASSES = "echo '[  PASSED  ] 3 tests.'"


def write_program(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Makes a prepared folder whose programs all pass, and in bin/ a GPU and a sanitizer."""
    write_program(tmp_path / "bin/nvidia-smi", "echo 'GPU 0: made up'")
    write_program(tmp_path / "bin/compute-sanitizer", 'echo "$*"\n' + PASSES)
    for name in ("fcdp_contracts_test", "fcdp_cuda_test", "fcdp_cuda_job_test"):
        write_program(tmp_path / "build/build/bin" / name, 'echo "$*"\n' + PASSES)
    for name in ("run.py", "environment.py"):
        (tmp_path / name).write_text("import sys; print(sys.argv[1:])")
    shutil.copy(SCRIPT.parents[1] / "benchmarks/gpu/libraries.py", tmp_path)
    return tmp_path


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    # Without the PATH of this machine, which may have a GPU.
    return subprocess.run(
        [sys.executable, SCRIPT, folder, *options],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PATH": f"{folder}/bin:/bin"},
    )


def results(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Returns the word of each stage, in the order in which they ended."""
    return {line.split()[0]: line.split()[1] for line in done.stdout.splitlines()[:-1]}


def test_stages_run_in_their_order(folder: Path) -> None:
    done = run(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert results(done) == dict.fromkeys(FIRST + SECOND + THIRD, "passed")
    # Stages that measure times run alone, in their order.
    alone = [name for name in results(done) if name not in ("gpu", "exactness", "jobs", "streams", "checked", "rules", "memcheck", "racecheck")]
    assert alone == [name for name in FIRST + SECOND + THIRD if name in alone] and "speeds" in alone
    assert done.stdout.splitlines()[-1].startswith("24 passed, 0 failed, 0 skipped")
    assert "--only-build" in (folder / "logs/build.log").read_text()
    assert "--gtest_filter=Gpu/*" in (folder / "logs/gpu.log").read_text()
    assert "--gtest_filter=Gpu/*" in (folder / "logs/rules.log").read_text()
    assert "'checked'" in (folder / "logs/checked.log").read_text()
    assert "--tool=racecheck --error-exitcode=1 build/build/bin/fcdp_cuda_test" in (folder / "logs/racecheck.log").read_text()
    assert "near-limit" in (folder / "logs/memory.log").read_text()


def test_calls_have_their_stages_and_an_archive(folder: Path) -> None:
    archive = folder / "second.tar.gz"
    done = run(folder, "--calls", "second", "--archive", str(archive))
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(results(done)) == set(SECOND)
    with tarfile.open(archive) as file:
        assert {f"logs/{name}.log" for name in SECOND} <= set(file.getnames())


def test_programs_find_the_libraries_of_torch(folder: Path) -> None:
    write_program(folder / "build/build/bin/fcdp_cuda_test", f'echo "$LD_LIBRARY_PATH"\n{PASSES}')
    assert run(folder, "--stages", "gpu").returncode == 0
    assert "/torch/lib:" in (folder / "logs/gpu.log").read_text()


@pytest.mark.parametrize(
    ("smi", "reason"),
    [
        (None, "nvidia-smi is not found"),
        ("echo 'No devices were found'; exit 6", "exit code 6: No devices were found"),
        ("true", "exit code 0: it printed nothing"),
    ],
)
def test_ends_at_once_without_a_gpu(folder: Path, smi: str | None, reason: str) -> None:
    (folder / "bin/nvidia-smi").unlink()
    if smi is not None:
        write_program(folder / "bin/nvidia-smi", smi)
    else:
        # /bin may have a real one.
        (folder / "bin/sh").symlink_to("/bin/sh")
    env_path = f"{folder}/bin" if smi is None else f"{folder}/bin:/bin"
    done = subprocess.run(
        [sys.executable, SCRIPT, folder], capture_output=True, text=True, timeout=60, env=os.environ | {"PATH": env_path}
    )
    assert done.returncode == 2 and done.stdout == ""
    assert "no GPU was found" in done.stderr and reason in done.stderr
    assert not (folder / "logs").exists()


def test_a_folder_that_is_not_prepared_is_refused(folder: Path) -> None:
    (folder / "run.py").unlink()
    done = run(folder)
    assert done.returncode == 2 and "expected a folder that prepare.py has made" in done.stderr


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("echo '[  PASSED  ] 2 tests.'; echo '[  FAILED  ] 1 test, listed below:'; exit 1", "exit code 1: 2 tests passed, 0 skipped, 1 failed"),
        ("echo '[  PASSED  ] 2 tests.'; echo '[  SKIPPED ] 1 test, listed below:'", "2 tests passed, 1 skipped, 0 failed"),
        ("echo '[  PASSED  ] 0 tests.'", "0 tests passed"),
        ("echo before; echo the last word; exit 3", "exit code 3: the last word"),
        ("kill -SEGV $$", "exit code -11: it printed nothing"),
    ],
)
def test_others_run_after_a_failed_stage(folder: Path, body: str, reason: str) -> None:
    write_program(folder / "build/build/bin/fcdp_cuda_test", body)
    done = run(folder, "--stages", "contracts", "jobs")
    assert done.returncode == 1
    assert results(done) == {"contracts": "failed", "jobs": "passed"}
    assert reason in done.stdout.splitlines()[0]


def test_what_is_not_there_is_skipped(folder: Path) -> None:
    (folder / "bin/compute-sanitizer").unlink()
    (folder / "build/build/bin/fcdp_cuda_job_test").unlink()
    done = run(folder)
    assert done.returncode == 1
    skipped = {name for name, word in results(done).items() if word == "skipped"}
    assert skipped == {"jobs", "streams", "memcheck", "racecheck"}
    assert "compute-sanitizer is not found" in done.stdout and "build/build/bin/fcdp_cuda_job_test is not there" in done.stdout


def test_a_stage_ends_at_its_limit_with_its_processes(folder: Path) -> None:
    write_program(folder / "build/build/bin/fcdp_cuda_test", f"sleep 50 & echo $! >{folder}/child\nwait")
    begin = time.monotonic()
    done = run(folder, "--stages", "contracts", "jobs", "--within=2")
    assert time.monotonic() - begin < 20
    assert done.returncode == 1
    assert results(done) == {"contracts": "failed", "jobs": "skipped"}
    assert "did not end within 2 s" in done.stdout and "the time is over" in done.stdout
    assert has_ended(int((folder / "child").read_text()))


def has_ended(pid: int) -> bool:
    """Waits for a process that is not a child of this one. A zombie has ended."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_calls_end_within_twelve_minutes() -> None:
    script = load()
    assert sum(script.CALLS.values()) <= 12 * 60 and script.CALLS.keys() == script.STAGES.keys()
    # A call may last ten minutes, and each of its groups must be able to begin.
    for call, groups in script.STAGES.items():
        assert script.CALLS[call] <= 300 and max(stage.seconds for group in groups for stage in group) <= script.CALLS[call]


def load() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("gpu_script", str(SCRIPT))
    spec = importlib.util.spec_from_loader("gpu_script", loader)
    assert spec is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules["gpu_script"] = script
    sys.dont_write_bytecode, former = True, sys.dont_write_bytecode
    loader.exec_module(script)
    sys.dont_write_bytecode = former
    return script
