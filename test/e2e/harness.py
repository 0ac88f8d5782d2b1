# SPDX-License-Identifier: Apache-2.0
"""Exports, compiles and runs steps, each combination once per test session."""

import contextlib
import fcntl
import hashlib
import json
import os
import pickle
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open

import fcdp
from closed_forms import Traffic
from forked_run import ForkedRun

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("FCDP_HOME", ROOT / "build")) / "bin"
LONG = pytest.mark.skipif(os.environ.get("FCDP_LONG_TESTS") != "1", reason="takes minutes; FCDP_LONG_TESTS=1 runs it")
sys.path.insert(0, str(Path(__file__).resolve().parent / "models"))

import make_models  # noqa: E402
from models import build  # noqa: E402

# AdamW's usual eps turns a gradient that is rounding noise (that of an attention's key bias) into steps of full length.
ADAMW = "adamw,lr=1e-3,eps=1e-3"
LION = "lion,lr=1e-3,weight_decay=0.5"
# More than a test waits for.
MANY_STEPS = 1_000_000
# A script that starts the tests in the background has them ignore SIGINT, and nohup SIGHUP. The jobs that they start
# would inherit that. A signal that has a handler here has its usual effect there.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, lambda *_: None)
LAUNCHER_VARIABLES = (
    "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE MASTER_ADDR MASTER_PORT".split()
)


@dataclass(frozen=True)
class Config:
    """A compiled step, and how it is started."""

    model: str
    nodes: int = 2
    local: int = 2
    strategy: str = "fcdp"
    micro_batches: int = 1
    optimizer: str = ADAMW
    accumulate: str = ""
    clip_norm: float | None = None
    remat: str = ""
    layout: str = "flat"
    bucket_bytes: int = 0
    prefetch: int | None = None
    cluster: str = ""
    device_memory: int = 0
    collectives: str = ""
    groups: tuple[str, ...] = ()
    master: str = ""
    reduce_dtype: str = ""
    loss_scale: bool = False
    loss_weight: str = ""
    loss_chunk: str = ""
    activations: str = ""
    fuse: str = ""
    wire: str = ""
    reduce_wire: str = ""
    outer: str = ""
    states: str = ""
    update: str = ""

    @property
    def world(self) -> int:
        return self.nodes * self.local

    @property
    def name(self) -> str:
        optimizer = self.optimizer.replace(",", "-").replace("=", "")
        strategy = "-".join(filter(None, (self.strategy, self.accumulate, self.collectives)))
        strategy += "" if self.prefetch is None else f"-p{self.prefetch}"
        clip = "" if self.clip_norm is None else f"-clip{self.clip_norm}"
        remat = self.remat and f"-remat-{self.remat}"
        layout = "" if self.layout == "flat" else f"-{self.layout.strip('>').replace('<', '')}"
        merged = f"-b{self.bucket_bytes}" if self.bucket_bytes else ""
        cluster = self.cluster and f"-{Path(self.cluster).stem}-{self.device_memory}"
        mesh = f"{self.nodes}x{self.local}"
        groups = "".join(f"-g{hashlib.sha256(group.encode()).hexdigest()[:8]}" for group in self.groups)
        master = self.master and f"-master-{self.master}"
        reduce = self.reduce_dtype and f"-reduce-{self.reduce_dtype}"
        scale = "-scaled" if self.loss_scale else ""
        scale += self.loss_weight and f"-weighted-{self.loss_weight}"
        scale += self.loss_chunk and f"-chunk{self.loss_chunk}"
        scale += self.activations and f"-act{self.activations}"
        scale += self.fuse and f"-fuse{self.fuse}"
        wires = (self.wire and f"-{self.wire}") + (self.reduce_wire and f"-{self.reduce_wire}")
        wires += self.outer and f"-outer{self.outer}".replace(",", "-").replace("=", "")
        wires += self.states and f"-{self.states}".replace(",", "-").replace("=", "")
        wires += self.update and f"-update-{self.update}"
        shape = f"{self.model}-{mesh}-{strategy}-k{self.micro_batches}"
        return f"{shape}-{optimizer}{clip}{remat}{layout}{merged}{cluster}{groups}{master}{reduce}{scale}{wires}"


@dataclass(frozen=True)
class Model:
    name: str
    archive: Path
    inputs: dict[str, Path]


@dataclass(frozen=True)
class Run:
    """The report of fcdp-run, one entry per step, and the parameters that it wrote."""

    steps: list[dict[str, Any]]
    parameters: Path

    @property
    def losses(self) -> list[float]:
        return [step["loss"] for step in self.steps]

    @property
    def traffic(self) -> list[Traffic]:
        return [
            Traffic(step["inter_bytes_sent"], step["intra_bytes_sent"], step["h2d_bytes"], step["d2h_bytes"])
            for step in self.steps
        ]


@dataclass(frozen=True)
class Reference:
    losses: list[float]
    parameters: dict[str, torch.Tensor]


class ToolError(RuntimeError):
    """A tool ended with another exit code than 0."""


def environment(extra: Mapping[str, str] = {}) -> dict[str, str]:
    """This process's environment without what a launcher may have left in it. No test measures machines unless it says
    so."""
    kept = {k: v for k, v in os.environ.items() if k not in LAUNCHER_VARIABLES and not k.startswith(("OMPI_", "SLURM_"))}
    return {**kept, "FCDP_STRATEGY": "fcdp", **extra}


def rank_environment(config: Config, rank: int, port: int, host: str = "127.0.0.1") -> dict[str, str]:
    """The variables that torchrun sets for rank `rank`, except that rank 0 serves the store."""
    return environment(
        {
            "RANK": str(rank),
            "WORLD_SIZE": str(config.world),
            "LOCAL_RANK": str(rank % config.local),
            "LOCAL_WORLD_SIZE": str(config.local),
            "GROUP_RANK": str(rank // config.local),
            "GROUP_WORLD_SIZE": str(config.nodes),
            "MASTER_ADDR": host,
            "MASTER_PORT": str(port),
        }
    )


def rank_environments(config: Config) -> list[dict[str, str]]:
    """Returns the environments of all ranks of a job, each of which is started by itself."""
    port = free_port()
    return [rank_environment(config, rank, port) for rank in range(config.world)]


def tool(*command: str | Path, timeout: float = 180, env: Mapping[str, str] | None = None) -> str:
    """Runs a command; returns its standard output. Raises ToolError with everything it printed."""
    done = _run([str(part) for part in command], timeout, dict(env) if env is not None else environment())
    if done.returncode != 0:
        line = " ".join(str(part) for part in command)
        raise ToolError(f"{line}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


_forked_run: ForkedRun | None = None


def _run(command: list[str], timeout: float, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """fcdp-run is forked if its environment is that of the first one."""
    global _forked_run
    env.pop("PYTEST_CURRENT_TEST", None)
    program = BIN / "fork-run"
    if command[0] == str(BIN / "fcdp-run") and program.exists():
        _forked_run = _forked_run or ForkedRun(program, env)
        if env == _forked_run.environment:
            try:
                return _forked_run.run(command, timeout)
            except subprocess.TimeoutExpired:
                _forked_run = None
                raise
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=env, stdin=subprocess.DEVNULL)


def wait_for_step(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 2"):
            return
    raise AssertionError(f"no step was made: {process.communicate()[1]}")


def free_port() -> int:
    """Below those that Linux gives to connections, which would otherwise take the port before its rank listens at
    it."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_768)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def compile_command(config: Config, source: Path, out: Path) -> list[str | Path]:
    return [
        BIN / "fcdp-compile",
        source,
        f"--nodes={config.nodes}",
        f"--ranks-per-node={config.local}",
        f"--strategy={config.strategy}",
        f"--micro-batches={config.micro_batches}",
        f"--optimizer={config.optimizer}",
        *(f"--group={group}" for group in config.groups),
        *([f"--accumulate={config.accumulate}"] if config.accumulate else []),
        *([f"--prefetch={config.prefetch}"] if config.prefetch is not None else []),
        *([f"--collectives={config.collectives}"] if config.collectives else []),
        *([f"--clip-norm={config.clip_norm}"] if config.clip_norm is not None else []),
        *([f"--remat={config.remat}"] if config.remat else []),
        *([f"--layout={config.layout}"] if config.layout != "flat" else []),
        *([f"--bucket-bytes={config.bucket_bytes}"] if config.bucket_bytes else []),
        *([f"--cluster={config.cluster}"] if config.cluster else []),
        *([f"--device-memory={config.device_memory}"] if config.device_memory else []),
        *([f"--master={config.master}"] if config.master else []),
        *([f"--reduce-dtype={config.reduce_dtype}"] if config.reduce_dtype else []),
        *([f"--wire={config.wire}"] if config.wire else []),
        *([f"--reduce-wire={config.reduce_wire}"] if config.reduce_wire else []),
        *([f"--outer={config.outer}"] if config.outer else []),
        *(["--loss-scale=on"] if config.loss_scale else []),
        *([f"--loss-weight={config.loss_weight}"] if config.loss_weight else []),
        *([f"--loss-chunk={config.loss_chunk}"] if config.loss_chunk else []),
        *([f"--activations={config.activations}"] if config.activations else []),
        *([f"--fuse={config.fuse}"] if config.fuse else []),
        *([f"--states={config.states}"] if config.states else []),
        *([f"--update={config.update}"] if config.update else []),
        "-o",
        out,
    ]


def run_command(step: Path, weights: Path, inputs: Mapping[str, Any], steps: int, *extra: str | Path) -> list[str | Path]:
    """One rank's command, or the one that starts them all, by the environment it gets."""
    command: list[str | Path] = [BIN / "fcdp-run", step, f"--weights={weights}", f"--steps={steps}", "--threads=1"]
    for name, source in inputs.items():
        command.append(f"--input={name}={source}")
    return [*command, *extra]


def read_log(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def read_plan(step: Path) -> dict[str, Any]:
    """The plan of a compiled step. Operations are {"kind": ..., and what their body has}, states are by role."""
    plan = json.loads(tool(BIN / "fcdp-compile", step, "--emit=plan-json"))
    plan["ops"] = [{**op, **op["body"], "kind": op["body_type"]} for op in plan["ops"]]
    for bucket in plan["buckets"]:
        bucket["states"] = {state["role"]: state["buf"] for state in bucket["states"]}
    return plan


def parameters(path: Path) -> dict[str, torch.Tensor]:
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}


@contextlib.contextmanager
def started(commands: Sequence[tuple[Sequence[str | Path], Mapping[str, str]]]) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that run beside each other; whichever still runs at the end is killed."""
    processes = []
    try:
        for command, env in commands:
            processes.append(
                subprocess.Popen(
                    [str(part) for part in command],
                    env=dict(env),
                    text=True,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
            )
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


class Workshop:
    """Makes things in `folder`, each once, also if several processes of a test session share the folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._made: dict[Any, Any] = {}
        (folder / "made").mkdir(parents=True, exist_ok=True)

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = self._make_or_load(key, make)
        return self._made[key]

    def _make_or_load(self, key: Any, make: Callable[[], Any]) -> Any:
        """The lock makes a process wait while another one makes the same thing. A thing that could not be made is tried
        again."""
        made = self.folder / "made" / hashlib.sha256(repr(key).encode()).hexdigest()
        with open(f"{made}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if made.exists():
                return pickle.loads(made.read_bytes())
            value = make()
            made.write_bytes(pickle.dumps(value))
            return value

    @property
    def state_folder(self) -> Path:
        """A folder for states in files. Temporary ones may be in memory, where no states may be."""
        folder = BIN.parent / "states-of-tests"
        folder.mkdir(exist_ok=True)
        return folder

    def model(self, name: str) -> Model:
        def make() -> Model:
            make_models.make(name, self.folder, seed=0)
            keys = make_models.input_arrays(name, 0)
            return Model(
                name,
                self.folder / f"{name}.pt2",
                {key: self.folder / f"{name}.inputs" / f"{key}.npy" for key in keys},
            )

        return self._once(("model", name), make)

    def step(self, config: Config) -> Path:
        def make() -> Path:
            out = self.folder / f"{config.name}.so"
            tool(*compile_command(config, self.model(config.model).archive, out))
            return out

        return self._once(("step", config), make)

    def run(self, config: Config, steps: int) -> Run:
        """All ranks on this machine, started by fcdp-run itself."""
        return self._once(("run", config, steps), lambda: self.run_object(self.step(config), config, steps, config.name))

    def run_object(self, step: Path, config: Config, steps: int, name: str, weights: Path | None = None) -> Run:
        model = self.model(config.model)
        log, out = self.folder / f"{name}-{steps}.jsonl", self.folder / f"{name}-{steps}.safetensors"
        mesh = (f"--nodes={config.nodes}", f"--ranks-per-node={config.local}")
        files = [f"--json={log}", f"--params-out={out}"]
        if config.states.startswith("file"):
            files.append(f"--state-path={self.state_folder}")
        tool(*run_command(step, weights or model.archive, model.inputs, steps, *mesh, *files))
        return Run(read_log(log), out)

    def reference(self, config: Config, steps: int) -> Reference:
        """Plain PyTorch on the rows that fcdp-run reads; independent of the strategy, and of how ranks form nodes."""
        config = replace(
            config, nodes=1, local=config.world, strategy="", accumulate="", remat="", layout="flat", bucket_bytes=0
        )

        def make() -> Reference:
            model = build(config.model)
            data = fcdp.batches_from_npy(self.model(config.model).inputs, config.world, config.micro_batches)
            losses = fcdp.reference(
                model, data, config.optimizer, steps, world=config.world, seed=0, clip_norm=config.clip_norm
            )
            return Reference(losses, {name: value.detach() for name, value in model.named_parameters()})

        return self._once(("reference", config, steps), make)


def relative_error(actual: Sequence[float], expected: Sequence[float]) -> float:
    """The largest over all steps."""
    assert len(actual) == len(expected)
    return max(abs(a - e) / abs(e) for a, e in zip(actual, expected))


def assert_bit_equal(one: Run, other: Run) -> None:
    """Every loss and every byte of the parameter files."""
    assert one.losses == other.losses
    assert np.isfinite(one.losses).all()
    assert one.parameters.read_bytes() == other.parameters.read_bytes()
