#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the CUDA backend on one GPU, in less than 12 minutes, and prints each figure beside its goal.

Run it in a folder that prepare.py has made. It needs PyTorch for CUDA, CMake, g++, nvcc and NCCL, and no network. The
exit code is 1 if a goal is missed or a part fails.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import figures  # noqa: E402
import libraries  # noqa: E402
import tokens  # noqa: E402
import weights  # noqa: E402
from figures import Figure  # noqa: E402
from steps import Prepared, load  # noqa: E402

SEED = 1
WARM_UP = 3  # steps in which allocators fill and kernels are chosen
EXACT_STEPS = 20
# For steps of less than a millisecond.
SMALL_STEPS = 200
CLIP_NORM = 1.0  # for the steps that prepare.py compiled with --clip-norm
# The second step captures graphs, and the others launch them.
CHECKED_STEPS = 6
# Time limits of a part's program and of a part of the build.
PART_SECONDS, BUILD_SECONDS = 150, 1800
# Steps near the memory's limit, and the bytes left free beyond the peak without a limit, which is read between steps.
NEAR_STEPS, NEAR_BYTES = 8, 256 << 20


@dataclass
class Bench:
    device: str
    fcdp_run: Path
    build: Path | None
    """Folder of the tests, or None without them."""
    folder: Path
    logs: Path
    """Folder of what is more than a figure: rows of the table of speeds, profiles, a measured cluster."""
    steps: int
    prepared: list[Prepared]

    def find(self, name: str, target: str) -> Prepared:
        return next(one for one in self.prepared if (one.name, one.target) == (name, target))

    def files(self, step: Prepared, steps: int) -> tuple[Path, Path]:
        """Returns the files of weights and tokens, which steps of one shape share."""
        key = "-".join(map(str, astuple(step.shape)))
        weight, token = self.folder / f"{key}.safetensors", self.folder / f"{key}-{steps}.u16"
        if not weight.exists():
            weights.write(weight, step.shape, SEED)
        if not token.exists():
            tokens.write(token, step.shape, steps * step.micro_batches * step.nodes, SEED)
        return weight, token

    def run(self, step: Prepared, steps: int, *options: str, more: dict[str, str] | None = None) -> list[dict[str, float]]:
        """Returns the log of fcdp-run. more: additional environment variables."""
        weight, token = self.files(step, steps)
        log = self.folder / f"log-{os.getpid()}.jsonl"
        ids, labels = step.inputs
        command = [self.fcdp_run, HERE / step.object, f"--weights={weight}", f"--steps={steps}", f"--json={log}"]
        command += ["--input", f"{ids}={token}:u16", "--input", f"{labels}={token}:u16+1", *options]
        if step.nodes > 1:
            command += [f"--nodes={step.nodes}", "--ranks-per-node=1"]
        call(command, more)
        return figures.read_log(log.read_text())

    def eager(self, step: Prepared, steps: int, warm_up: int, *options: str) -> tuple[list[float], float]:
        """Returns the losses, and the seconds of a step."""
        result = self.eager_result(step, steps, warm_up, *options)
        return result["losses"], result["seconds"]

    def eager_result(self, step: Prepared, steps: int, warm_up: int, *options: str) -> dict[str, Any]:
        weight, token = self.files(step, warm_up + steps)
        command = [sys.executable, HERE / "eager.py", f"--step={step.name}", f"--weights={weight}", f"--tokens={token}"]
        command += [f"--steps={steps}", f"--warm-up={warm_up}", f"--device={self.device}", *options]
        return json.loads(call(command))


def call(command: list[object], more: dict[str, str] | None = None, seconds: float = PART_SECONDS) -> str:
    """Runs a command and returns its standard output. Raises RuntimeError with its last words if it fails."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=seconds, env=os.environ | (more or {}), cwd=HERE
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{words[0]}: did not end within {seconds} s") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise RuntimeError(f"{' '.join(words)}: exit code {done.returncode}: {said[-1] if said else 'it said nothing'}")
    return done.stdout


def conformance(bench: Bench) -> list[Figure]:
    if bench.build is None:
        return []
    made = []
    for name, program, only in [
        ("kernels on the GPU", "fcdp_cuda_test", "Gpu/*"),
        ("jobs of processes on the GPU", "fcdp_cuda_job_test", "*"),
        ("conformance suite, over the fakes", "fcdp_cuda_test", "*Conformance*"),
    ]:
        command = [bench.build / "bin" / program, f"--gtest_filter={only}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PART_SECONDS)
        made.append(figures.tests_figure(name, done.stdout, done.returncode))
    return made


def exactness(bench: Bench) -> list[Figure]:
    step = bench.find("exact", bench.device)
    losses, again = ([line["loss"] for line in bench.run(step, EXACT_STEPS, "--deterministic")] for _ in range(2))
    eager, _ = bench.eager(step, EXACT_STEPS, 0, f"--clip-norm={CLIP_NORM}")
    made = [
        figures.loss_figure("losses in f32, against eager PyTorch", losses, eager),
        figures.loss_figure("losses of two runs with --deterministic", losses, again, most=0),
    ]
    if bench.device != "cpu":
        on_cpu = [line["loss"] for line in bench.run(bench.find("exact", "cpu"), EXACT_STEPS)]
        made.append(figures.loss_figure("losses in f32, CUDA against CPU", losses, on_cpu))
    return made


def host_time(bench: Bench) -> list[Figure]:
    step = bench.find("small", bench.device)
    ours = figures.seconds_of(bench.run(step, SMALL_STEPS + WARM_UP), WARM_UP)
    _, eager = bench.eager(step, SMALL_STEPS, WARM_UP, f"--clip-norm={CLIP_NORM}")
    return [figures.host_figure(ours, eager, step.operations)]


def waits(bench: Bench) -> list[Figure]:
    """Counts waits as the difference of two runs, one twice as long, so that calls that both make once cancel."""
    if bench.device == "cpu":
        return []
    folder, step = Path(tempfile.mkdtemp(dir=bench.folder)), bench.find("small", "cuda")
    shim = folder / "syncs.so"
    call(["nvcc", "-x", "c", "--shared", "-Xcompiler", "-fPIC", "-cudart", "none", "-o", shim, HERE / "syncs.c", "-ldl"])
    counted = []
    for steps in (SMALL_STEPS, 2 * SMALL_STEPS):
        path = folder / f"calls-{steps}"
        bench.run(step, steps, more={"LD_PRELOAD": str(shim), "FCDP_CALLS": str(path)})
        (written,) = folder.glob(f"{path.name}.*")
        counted.append(figures.read_calls(written.read_text()))
    return [figures.waits_figure(figures.calls_of_steps(*counted, SMALL_STEPS))]


def checked(bench: Bench) -> list[Figure]:
    """Runs two ranks with the checker of CUDA's and NCCL's rules in front of both, which ends a rank that breaks one.
    """
    if bench.build is None or bench.device == "cpu":
        return []
    folder, step = Path(tempfile.mkdtemp(dir=bench.folder)), bench.find("checked", bench.device)
    more = {"LD_PRELOAD": str(bench.build / "contracts/libfcdp_contracts.so"), "FCDP_CONTRACTS_DIR": str(folder)}
    bench.run(step, CHECKED_STEPS, "--cuda-graphs=auto", more=more | {"FCDP_CONTRACTS": "abort"})
    return [figures.rules_figure([figures.read_calls(file.read_text()) for file in folder.glob("checked.*")], step.nodes)]


def graphs(bench: Bench) -> list[Figure]:
    if bench.device == "cpu":
        return []
    step, steps = bench.find("llama-flash", bench.device), bench.steps + WARM_UP
    log = bench.run(step, steps, "--cuda-graphs=auto", "--deterministic")
    other = bench.run(step, steps, "--deterministic")
    rate, otherwise = (step.shape.tokens / figures.seconds_of(one, WARM_UP) for one in (log, other))
    losses = [[line["loss"] for line in one] for one in (log, other)]
    return [
        figures.loss_figure("losses, with CUDA graphs or without", *losses, most=0),
        figures.without_goal(figures.ratio_figure("Llama step with CUDA graphs, of that without", rate, otherwise, 1)),
    ]


def packed(bench: Bench) -> list[Figure]:
    step, masked = (bench.find(name, bench.device) for name in ("packed", "packed-masked"))
    logs = [bench.run(one, bench.steps + WARM_UP) for one in (step, masked)]
    losses = [[line["loss"] for line in log] for log in logs]
    rates = [step.shape.tokens / figures.seconds_of(log, WARM_UP) for log in logs]
    return [
        figures.loss_figure("losses of packed rows, against their mask", *losses, figures.MOST_DIFFERENCE_BF16),
        figures.without_goal(figures.ratio_figure("step on packed rows, of that under their mask", *rates, 1)),
    ]


def llama(bench: Bench) -> list[Figure]:
    step = bench.find("llama", bench.device)
    log = bench.run(step, bench.steps + WARM_UP)
    rate = step.shape.tokens / figures.seconds_of(log, WARM_UP)
    losses, eager = bench.eager(step, bench.steps, WARM_UP)
    made = [
        figures.loss_figure(
            "losses in bf16, against eager PyTorch", [line["loss"] for line in log], losses, figures.MOST_DIFFERENCE_BF16
        ),
        figures.ratio_figure("Llama step, of eager PyTorch", rate, step.shape.tokens / eager, figures.LEAST_OF_EAGER),
    ]
    peak = max(line["device_peak_bytes"] for line in log[WARM_UP:])
    return [*made, figures.memory_figure("peak memory of the Llama step", peak, step.planned_bytes)]


def speeds(bench: Bench, names: Sequence[str], *others: str) -> list[Figure]:
    """Measures steps with and without CUDA graphs, beside eager PyTorch and the other ways that `others` names."""
    made = []
    for name in names:
        step = bench.find(name, bench.device)
        made += [speed(bench, step, "fcdp", lambda step=step: ours(bench, step))]
        if bench.device != "cpu":
            made += [speed(bench, step, "fcdp, CUDA graphs", lambda step=step: ours(bench, step, "--cuda-graphs=auto"))]
        for other in ("eager", *others):
            options = [] if other == "eager" else [f"--{other}"]
            made += [speed(bench, step, other, lambda step=step, options=options: theirs(bench, step, *options))]
    return made


def ours(bench: Bench, step: Prepared, *options: str) -> tuple[float, float]:
    log = bench.run(step, bench.steps + WARM_UP, *options)
    name = "-".join([step.name, *(option.strip("-").replace("=", "-") for option in options)])
    (bench.logs / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    return figures.seconds_of(log, WARM_UP), max(line["device_peak_bytes"] for line in log)


def theirs(bench: Bench, step: Prepared, *options: str) -> tuple[float, float]:
    result = bench.eager_result(step, bench.steps, WARM_UP, *options)
    return result["seconds"], result["peak_bytes"]


def speed(bench: Bench, step: Prepared, way: str, measured: Callable[[], tuple[float, float]]) -> Figure:
    """Makes a figure, and a row of the table of speeds. measured: returns seconds of a step, and bytes at its peak."""
    name = f"{step.name}, {way}"
    try:
        seconds, peak = measured()
    except (RuntimeError, OSError) as error:
        return Figure(name, str(error), "runs", met=False)
    row = {"step": step.name, "way": way, "seconds": seconds, "tokens_per_s": step.shape.tokens / seconds, "peak_bytes": peak}
    with (bench.logs / "speeds.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    return Figure(name, f"{seconds * 1e3:.1f} ms, {row['tokens_per_s']:,.0f} tokens/s, {peak / 2**30:.1f} GiB")


def profile(bench: Bench) -> list[Figure]:
    """Writes where the time of the Llama step goes, ours and eager PyTorch's."""
    step = bench.find("llama", bench.device)
    files = [bench.logs / name for name in ("llama-profile.json", "llama-trace.json", "llama-eager.txt")]
    bench.run(step, bench.steps, f"--profile={files[0]}", f"--trace={files[1]}")
    bench.eager(step, 1, WARM_UP, *([f"--profile={files[2]}"] if bench.device != "cpu" else []))
    return [Figure("profiles", ", ".join(file.name for file in files if file.exists()))]


def probe(bench: Bench) -> list[Figure]:
    """Describes this machine for the simulator."""
    path = bench.logs / "probed.yaml"
    said = call([bench.fcdp_run, f"--probe-cluster={path}", f"--target={bench.device}", "--nodes=1", "--ranks-per-node=1"])
    (bench.logs / "probe.txt").write_text(said)
    return [Figure("probed cluster", f"{len(path.read_text().splitlines())} lines")]


def operations(bench: Bench) -> list[Figure]:
    if bench.device == "cpu":
        return []
    said = call([sys.executable, HERE / "operations.py"])
    (bench.logs / "operations.jsonl").write_text(said)
    return [Figure("single operations", f"{len(said.splitlines())} measured")]


def caching(bench: Bench) -> list[Figure]:
    """Compares two steps with equal traffic. One keeps gathered parameters on the device, the other on the host.

    Two ranks that share a GPU take turns on it, so this does not show whether compute hides copies.
    """
    logs = [
        bench.run(bench.find(name, bench.device), bench.steps + WARM_UP, "--deterministic") for name in ("host", "resident")
    ]
    losses = [[line["loss"] for line in log] for log in logs]
    return [figures.loss_figure("losses, parameters on the host or on the device", *losses, most=0)]


def moved(bench: Bench) -> list[Figure]:
    logs = [bench.run(bench.find(name, bench.device), bench.steps + WARM_UP, "--deterministic") for name in ("moved", "kept")]
    losses = [[line["loss"] for line in log] for log in logs]
    there, kept = (figures.seconds_of(log, WARM_UP) for log in logs)
    return [
        figures.loss_figure("losses, states and activations on the host or on the device", *losses, most=0),
        Figure("seconds of a step with them on the host", f"{there:.3f} (on the device {kept:.3f})"),
    ]


def host_work(bench: Bench) -> list[Figure]:
    """Has threads of the host work in the order of streams: they read and write files, and update states."""
    folder = bench.folder / "states"
    folder.mkdir(exist_ok=True)
    filed = bench.run(bench.find("filed", bench.device), bench.steps + WARM_UP, "--deterministic", f"--state-path={folder}")
    kept = bench.run(bench.find("kept", bench.device), bench.steps + WARM_UP, "--deterministic")
    made = [figures.loss_figure("losses, states in files or on the device", *([line["loss"] for line in log] for log in (filed, kept)), most=0)]
    if bench.device == "cpu":
        return made
    made.append(Figure("seconds of a step with states in files", f"{figures.seconds_of(filed, WARM_UP):.3f}"))
    updated = [[line["loss"] for line in bench.run(bench.find("updated", device), EXACT_STEPS)] for device in (bench.device, "cpu")]
    return [*made, figures.loss_figure("losses with updates on the host, CUDA against CPU", *updated, most=figures.MOST_DIFFERENCE)]


def rounded(bench: Bench) -> list[Figure]:
    """Compares codes that kernels make with those of the CPU's codec. A last bit of a gradient may change a code."""
    if bench.device == "cpu":
        return []
    losses = [
        [line["loss"] for line in bench.run(bench.find("rounded", device), EXACT_STEPS)] for device in (bench.device, "cpu")
    ]
    return [figures.loss_figure("losses with gradients in 8 bits between ranks, CUDA against CPU", *losses, most=figures.MOST_DIFFERENCE_ROUNDED)]


@contextmanager
def holding(leave: int) -> Iterator[None]:
    """Takes the GPU's memory but for `leave` bytes."""
    command = [sys.executable, HERE / "hold.py", str(leave)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if not holder.stdout.readline():
            raise RuntimeError(f"hold.py {leave}: exit code {holder.wait()}")
        yield
    finally:
        holder.stdin.close()
        holder.wait()


def near_limit(bench: Bench) -> list[Figure]:
    """Runs more steps than the allocators take to settle, with just the memory that they take if there is plenty."""
    if bench.device == "cpu":
        return []
    step, options = bench.find("llama-flash", bench.device), ("--cuda-graphs=auto", "--deterministic")
    log = bench.run(step, NEAR_STEPS, *options)
    with holding(int(max(line["device_peak_bytes"] for line in log)) + NEAR_BYTES):
        near = bench.run(step, NEAR_STEPS, *options)
    losses = [[line["loss"] for line in one] for one in (near, log)]
    return [figures.loss_figure("losses near the memory's limit, or far from it", *losses, most=0)]


PARTS: dict[str, Callable[[Bench], list[Figure]]] = {
    "conformance": conformance,
    "exactness": exactness,
    "host-time": host_time,
    "waits": waits,
    "checked": checked,
    "graphs": graphs,
    "llama": llama,
    "packed": packed,
    "caching": caching,
    "moved": moved,
    "host-work": host_work,
    "rounded": rounded,
    "near-limit": near_limit,
    "probe": probe,
    "operations": operations,
    "profile": profile,
    "speeds": lambda bench: speeds(bench, ["gpt2", "llama", "llama-flash"]),
    "peers-gpt2": lambda bench: speeds(bench, ["gpt2"], "fsdp2", "compiled"),
    "peers-llama": lambda bench: speeds(bench, ["llama"], "fsdp2", "compiled"),
    "sizes": lambda bench: speeds(bench, ["llama-3b", "llama-400m", "llama-100m"]),
}
# On the CPU these parts do not measure the CUDA backend.
SPEED = {"host-time", "llama"}


def measure(name: str, bench: Bench) -> list[Figure]:
    begin = time.perf_counter()
    try:
        made = PARTS[name](bench)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        made = [Figure(name, str(error), "runs", met=False)]
    if bench.device == "cpu" and name in SPEED:
        made = [one if one.name.startswith("losses") or one.goal == "runs" else figures.without_goal(one) for one in made]
    print(f"run: {name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    return made


def build(folder: Path, torch_dir: Path) -> Path:
    """Builds the runtime, fcdp-run and the tests with this PyTorch, unless the folder has a build that runs here.

    Returns the build folder.
    """
    source, out, third_party = HERE / "source", folder / "build", HERE / "source/third_party"
    if starts(out / "bin/fcdp-run"):
        return out
    google_test = folder / "googletest"
    ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
    # Give a number, because make without one would start all jobs at once.
    jobs = ["--parallel", os.cpu_count() or 1]
    # If another machine has built here, CMake's caches have its folders.
    for old in (out, google_test):
        shutil.rmtree(old, ignore_errors=True)
    call(["cmake", *ninja, "-S", third_party / "googletest", "-B", google_test, f"-DCMAKE_INSTALL_PREFIX={google_test}/installed"])
    call(["cmake", "--build", google_test, *jobs, "--target", "install"], seconds=BUILD_SECONDS)
    options = ["-DFCDP_BUILD_COMPILER=OFF", "-DFCDP_CUDA=on", f"-DFCDP_TORCH_DIR={torch_dir}", "-DCMAKE_BUILD_TYPE=Release"]
    options += ["-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=16"]
    options.append(f"-DCMAKE_PREFIX_PATH={third_party};{google_test}/installed")
    nccl = torch_dir.parent / "nvidia/nccl"  # its place in PyTorch's packages; CMake finds a system's NCCL itself
    if nccl.is_dir():
        options.append(f"-DFCDP_NCCL_DIR={nccl}")
    call(["cmake", *ninja, "-S", source, "-B", out, *options])
    targets = ["fcdp-run", "fcdp_contracts_test", "fcdp_cuda_test", "fcdp_cuda_job_test"]
    call(["cmake", "--build", out, *jobs, "--target", *targets], seconds=BUILD_SECONDS)
    return out


def starts(fcdp_run: Path) -> bool:
    """Returns whether fcdp-run is there, and finds a libtorch that it was built for."""
    try:
        call([fcdp_run, "--report-environment"], libraries.environment(), seconds=60)
    except (OSError, RuntimeError) as error:
        if fcdp_run.exists():
            print(f"run: what was built before is not used: {error}", file=sys.stderr)
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python3 run.py\nexample: python3 run.py --parts llama waits --build /tmp/fcdp-build",
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help="parts to run, of " + ", ".join(PARTS))
    parser.add_argument("--steps", type=int, default=10, help="timed steps of the large models (default 10)")
    parser.add_argument("--build", type=Path, help="folder of the build, which is kept and reused")
    parser.add_argument("--work", type=Path, help="folder of weights and tokens, which is kept and reused")
    parser.add_argument("--logs", type=Path, default=HERE / "logs", help="folder of profiles and tables (default: logs beside this script)")
    parser.add_argument("--only-build", action="store_true", help="build into the folder of --build, and end")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="device (default cuda); cpu is a rehearsal after prepare.py --tiny")
    parser.add_argument("--fcdp-run", type=Path, help="use this fcdp-run instead of building; skips the tests")
    args = parser.parse_args()
    if args.only_build and (args.build is None or args.fcdp_run is not None):
        parser.error("--only-build needs --build, and no --fcdp-run")
    os.environ |= libraries.environment()
    if args.device == "cuda" and not torch.cuda.is_available():
        print("run: error: this PyTorch sees no GPU", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder, built, begin = Path(name), None, time.perf_counter()
        if args.fcdp_run is None:
            try:
                built = build((args.build or folder).absolute(), Path(torch.__file__).parent)
            except RuntimeError as error:
                print(f"run: error: {error}", file=sys.stderr)
                return 1
            print(f"run: build: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
        if args.only_build:
            print(call([built / "bin/fcdp-run", "--report-environment"]))
            return 0
        fcdp_run = args.fcdp_run or built / "bin/fcdp-run"
        for needed in (args.work or folder, args.logs):
            needed.mkdir(parents=True, exist_ok=True)
        work, logs = (args.work or folder).absolute(), args.logs.absolute()
        bench = Bench(args.device, fcdp_run.absolute(), built, work, logs, args.steps, load(HERE / "steps.json"))
        found = []
        for part in args.parts:
            # Printed at once, so that it is not lost if the program is ended later.
            if made := measure(part, bench):
                print(figures.render(made), flush=True)
                found += made
    print(f"{figures.missed(found)} goals missed, {time.perf_counter() - begin:.0f} s")
    return 1 if figures.missed(found) else 0


if __name__ == "__main__":
    sys.exit(main())
