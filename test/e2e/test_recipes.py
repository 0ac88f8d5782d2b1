# SPDX-License-Identifier: Apache-2.0
"""The recipes of `examples` run with --small on two ranks: they train as eager PyTorch does, and what is frozen stays.

The tests of launchers run the started commands, with commands of this machine in place of ssh and srun, and with the
variables that Kubeflow's operator gives to pods.
"""

import argparse
import copy
import importlib.util
import json
import math
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import yaml
from peft import PeftModel
from safetensors.torch import load_file
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler
from transformers import AutoModelForCausalLM

from harness import BIN, ROOT, Config, Workshop, environment, rank_environments, read_log, run_command
from python_ranks import Printed, run_ranks

EXAMPLES = ROOT / "examples"
RANKS, BATCH, MICRO_BATCHES = 2, 2, 2
# The launchers use the steps that the recipes have compiled, too.
pytestmark = pytest.mark.xdist_group("recipes")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def run_recipe(name: str, out: Path, cache: Path, nodes: int = 1, *arguments: str) -> str:
    """Runs a recipe on two ranks. Returns what rank 0 printed."""
    environments = [
        {**ranks, "FCDP_CACHE": str(cache), "OMP_NUM_THREADS": "1"} for ranks in rank_environments(Config("", nodes, RANKS // nodes))
    ]
    script = EXAMPLES / name / f"{name}.py"
    printed: list[Printed] = run_ranks(script, ["--small", "--out", out, *arguments], environments)
    assert not any(rank.out for rank in printed[1:])
    return printed[0].out


def losses(text: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"^step \d+: loss ([\d.]+)", text, re.M)]


def bytes_sent(text: str) -> list[int]:
    return [int(count) for count in re.findall(r"a node sent (\d+) bytes$", text, re.M)]


def assert_falls(found: list[float], to: float) -> None:
    """The mean of the last steps is at most `to` of that of the first."""
    assert len(found) >= 8
    assert sum(found[-3:]) < to * sum(found[:3]), found


def recipe(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"recipe_{name}", EXAMPLES / name / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def first_loss(model: nn.Module, rows: Any, call: Any = lambda model, batch: model(**batch).loss) -> float:
    """The loss of eager PyTorch on the rows of the first step: the mean over ranks and micro-batches."""
    found = []
    with torch.no_grad():
        for rank in range(RANKS):
            sampler = DistributedSampler(rows, RANKS, rank, seed=0, drop_last=True)
            batches = iter(DataLoader(rows, BATCH, sampler=sampler))
            found += [call(model, next(batches)).item() for _ in range(MICRO_BATCHES)]
    return sum(found) / len(found)


def frozen_bytes(module: nn.Module) -> int:
    return sum(p.numel() * p.element_size() for p in module.parameters() if not p.requires_grad)


def assert_frozen_are_sent_once(sent: list[int], module: nn.Module) -> None:
    """Each of two nodes sends its half of the frozen parameters in the first step, and never again."""
    assert len(set(sent[1:])) == 1
    assert sent[0] - sent[1] == frozen_bytes(module) // 2


def test_finetune(tmp_path: Path, cache: Path) -> None:
    """The second job goes on from a checkpoint of the first one, bit for bit."""
    text = run_recipe("finetune", tmp_path, cache)
    assert_falls(losses(text), 0.9)
    torch.manual_seed(0)
    small = recipe("finetune")
    args = argparse.Namespace(**small.make_small())
    expected = first_loss(AutoModelForCausalLM.from_pretrained(args.model), small.load(args)[1])
    assert losses(text)[0] == pytest.approx(expected, rel=1e-5)
    AutoModelForCausalLM.from_pretrained(tmp_path / "model")

    (last,) = (tmp_path / "checkpoints").glob("step-*8")
    last.rename(tmp_path / "taken")
    (tmp_path / "model").rename(tmp_path / "first")
    again = run_recipe("finetune", tmp_path, cache)
    assert losses(again) == losses(text)[4:]
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("first", "model"))
    assert all(torch.equal(second[name], value) for name, value in first.items())


def test_dpo(tmp_path: Path, cache: Path) -> None:
    text = run_recipe("dpo", tmp_path / "out", cache, 2, "--check")
    assert losses(text)[0] == pytest.approx(math.log(2), abs=1e-6)
    assert_falls(losses(text), 0.9)
    small = recipe("dpo")
    torch.manual_seed(0)
    model, _ = small.load(argparse.Namespace(beta=0.1, **small.make_small()))
    assert_frozen_are_sent_once(bytes_sent(text), model)
    shown = bytes_sent((EXAMPLES / "dpo/README.md").read_text())
    assert shown == bytes_sent(text)[: len(shown)] != []
    AutoModelForCausalLM.from_pretrained(tmp_path / "out")


def test_distill(tmp_path: Path, cache: Path) -> None:
    text = run_recipe("distill", tmp_path / "out", cache, 2)
    small = recipe("distill")
    torch.manual_seed(0)
    model, rows = small.load(argparse.Namespace(temperature=2.0, hard=0.1, **small.make_small()))
    expected = first_loss(model, rows, lambda model, batch: model(batch))
    assert losses(text)[0] == pytest.approx(expected, rel=1e-5)
    assert_falls(losses(text), 0.9)
    assert_frozen_are_sent_once(bytes_sent(text), model)
    AutoModelForCausalLM.from_pretrained(tmp_path / "out")


def test_vision(tmp_path: Path, cache: Path) -> None:
    text = run_recipe("vision", tmp_path / "out", cache, 2)
    torch.manual_seed(0)
    model, rows = recipe("vision").make_small(argparse.Namespace())
    assert losses(text)[0] == pytest.approx(first_loss(model, rows), rel=1e-5)
    assert_falls(losses(text), 0.9)
    # LLaVA takes the features of a layer before the last one of its tower. The layers after it are not sent.
    first, *later = bytes_sent(text)
    assert len(set(later)) == 1 and frozen_bytes(model) // 4 < first - later[0] < frozen_bytes(model) // 2
    before, after = model.state_dict(), type(model).from_pretrained(tmp_path / "out").state_dict()
    unchanged = {name for name, value in after.items() if torch.equal(value, before[name])}
    assert unchanged == {name for name in after if "vision_tower" in name}


def test_moe(tmp_path: Path, cache: Path) -> None:
    """In bfloat16, as at its real size."""
    text = run_recipe("moe", tmp_path / "out", cache)
    small = recipe("moe")
    torch.manual_seed(0)
    args = argparse.Namespace(**small.make_small())
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype="auto", output_router_logits=True)
    rows = small.load(args)[1]
    expected = first_loss(model, rows, lambda model, batch: model(input_ids=batch, labels=batch).loss)
    assert losses(text)[0] == pytest.approx(expected, rel=1e-2)
    assert_falls(losses(text), 0.9)
    trained = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype="auto", output_router_logits=True)
    with torch.no_grad():
        assert trained(input_ids=rows[:8], labels=rows[:8]).loss < 0.9 * expected


def test_lora(tmp_path: Path, cache: Path) -> None:
    run_recipe("lora", tmp_path, cache)
    (state,) = tmp_path.glob("checkpoint-*/trainer_state.json")
    found = [entry["loss"] for entry in json.loads(state.read_text())["log_history"] if "loss" in entry]
    assert_falls(found, 0.97)
    small = recipe("lora")
    torch.manual_seed(0)
    args = argparse.Namespace(**small.make_small())
    base = AutoModelForCausalLM.from_pretrained(args.model)
    ids = torch.stack([row["input_ids"] for row in small.load(args)[1]])
    with torch.no_grad():
        before = base(input_ids=ids, labels=ids).loss
        after = PeftModel.from_pretrained(base, tmp_path)(input_ids=ids, labels=ids).loss
    assert after < 0.97 * before


def test_qlora(tmp_path: Path) -> None:
    """PEFT loads the adapter on the base as it is."""
    arguments, path = ["--small", "--out", tmp_path], f"{BIN}:{os.environ['PATH']}"
    run_ranks(EXAMPLES / "qlora" / "qlora.py", arguments, [environment({"PATH": path, "OMP_NUM_THREADS": "1"})])
    assert_falls([line["loss"] for line in read_log(tmp_path / "log.jsonl") if "loss" in line], 0.97)
    args = argparse.Namespace(**recipe("qlora").make_small())
    base = AutoModelForCausalLM.from_pretrained(args.model, dtype="auto")
    ids = torch.tensor([[i * i % 64 for i in range(32)]])
    with torch.no_grad():
        before = base(input_ids=ids, labels=ids).loss
        after = PeftModel.from_pretrained(base, tmp_path / "adapter")(input_ids=ids, labels=ids).loss
    assert after < 0.97 * before


def test_pretrain(tmp_path: Path) -> None:
    """Raw text without a tokenizer; its words repeat."""
    words = "the ranks of a node read one slice of a bucket and send it once".split()
    (tmp_path / "a.txt").write_text(" ".join(words[i * i % len(words)] for i in range(12_000)))
    arguments = ["--small", "--nodes=2", "--ranks-per-node=1", "--out", tmp_path / "run", "--text", tmp_path / "a.txt"]
    path = f"{BIN}:{os.environ['PATH']}"
    run_ranks(EXAMPLES / "pretrain" / "pretrain.py", arguments, [environment({"PATH": path, "OMP_NUM_THREADS": "1"})])
    log = read_log(tmp_path / "run" / "log.jsonl")
    assert_falls([line["loss"] for line in log if "loss" in line], 0.8)
    evaluated = [line["evaluation_loss"] for line in log if "evaluation_loss" in line]
    assert evaluated[-1] < 0.8 * evaluated[0]
    assert load_file(tmp_path / "run" / "model.safetensors")


# The commands for Slurm and Kubernetes run this program in place of a recipe. It trains, so ranks have met.
PROGRAM = """
import sys
import torch
from torch import nn
import fcdp

torch.manual_seed(0)
example = (torch.ones(2, 4), torch.ones(2, 1))
with fcdp.compile(nn.Linear(4, 1), example, loss_fn=nn.functional.mse_loss, optimizer="sgd,lr=0.1", check=False) as step:
    losses = [step(*example).item() for _ in range(8)]
    if step.rank == 0:
        print(step.num_ranks, step.figures["inter_bytes"] > 0, sys.argv[1:], *losses, file=open(sys.argv[-1].removeprefix("--out="), "w"))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def assert_ranks_met(out: Path, arguments: Iterable[object]) -> None:
    """Two ranks on two nodes."""
    number, sent, rest = out.read_text().split(maxsplit=2)
    given, found = rest.split("]")
    assert (number, sent, given) == (str(RANKS), "True", str([str(one) for one in arguments])[:-1])
    first, *_, last = map(float, found.split())
    assert last < 0.5 * first


def commands(folder: Path, **scripts: str) -> str:
    """Makes programs. Returns a PATH that begins with them, and has the tools and those of the virtual environment."""
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}")
        (folder / name).chmod(0o755)
    return f"{folder}:{BIN}:{ROOT / '.venv/bin'}:{os.environ['PATH']}"


def test_ssh(workshop: Workshop, tmp_path: Path) -> None:
    """ssh is a shell on this machine, in its home. A compiled step has the losses that it has under fcdp-run's
    launcher."""
    config = Config("gpt", micro_batches=2)
    path = commands(tmp_path, ssh='echo "$1" >>"$HOME/hosts"; cd; exec bash -c "$2"')
    port = rank_environments(Config("", 1, 1))[0]["MASTER_PORT"]
    variables = environment({"PATH": path, "HOME": str(tmp_path), "MASTER_PORT": port})
    model, log = workshop.model(config.model), tmp_path / "two words.jsonl"
    run = run_command(workshop.step(config), model.archive, model.inputs, 2, f"--json={log}")
    start = [EXAMPLES / "ssh/train.sh", "127.0.0.1 localhost", str(config.local), "--no-python", *run]
    done = subprocess.run(start, env=variables, cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert sorted((tmp_path / "hosts").read_text().split()) == ["127.0.0.1", "localhost"]
    assert [line["loss"] for line in read_log(log)] == workshop.run(config, 2).losses


def test_slurm(tmp_path: Path, cache: Path) -> None:
    """srun starts two tasks here, as if on two nodes."""
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    finetune = tmp_path / "examples/finetune/finetune.py"
    finetune.parent.mkdir(parents=True)
    finetune.write_text(PROGRAM)
    of_step = "SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=localhost,127.0.0.1 SLURM_LOCALID=0"
    srun = f'shift\nexport {of_step}\nfor i in 0 1; do SLURM_PROCID=$i SLURM_NODEID=$i "$@" & done\nwait\n'
    path = commands(tmp_path, srun=srun, scontrol='echo "$@" >"$RUN/requeued"')
    job = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_SUBMIT_DIR": str(tmp_path), "RUN": str(tmp_path), "PATH": path}
    variables = environment({**job, "FCDP_CACHE": str(cache), "OMP_NUM_THREADS": "1"})
    command = ["bash", EXAMPLES / "slurm/finetune.sbatch", "--data", tmp_path / "out"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert_ranks_met(tmp_path / "out", ["--out", tmp_path, "--data", tmp_path / "out"])
    assert not (tmp_path / "requeued").exists()

    # Its time ends.
    commands(tmp_path, srun="sleep 0.5\ntouch started\nexec sleep 60")
    with subprocess.Popen(command, env=variables) as ends:
        while not (tmp_path / "started").exists():
            assert ends.poll() is None
            time.sleep(0.02)
        ends.send_signal(signal.SIGUSR1)
        assert ends.wait(30) == 0
    assert (tmp_path / "requeued").read_text() == f"requeue {os.getpid()}\n"


JOB = yaml.safe_load((EXAMPLES / "kubernetes/finetune.yaml").read_text())
# The fields of a PyTorchJob (release 1.9.0 of the operator) that the file has. "!" marks those that must be there.
QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?([KMGTPE]i|[mkMGTPE])?")
SECRET = {"secretKeyRef": {"name": str, "key!": str}}
CONTAINER = {
    "name!": re.compile("pytorch"),
    "image!": re.compile(".+"),
    "command": [str],
    "args": [str],
    "env": [{"name!": str, "value": str, "valueFrom": SECRET}],
    "resources": {"limits": {"nvidia.com/gpu": QUANTITY, "memory": QUANTITY}},
    "volumeMounts": [{"name!": str, "mountPath!": str}],
}
VOLUME = {"name!": str, "persistentVolumeClaim": {"claimName!": str}, "emptyDir": {"medium": str, "sizeLimit": QUANTITY}}
POD = {"metadata": {"annotations": {"sidecar.istio.io/inject": str}}, "spec": {"containers!": [CONTAINER], "volumes": [VOLUME]}}
REPLICA = {"replicas": int, "restartPolicy": re.compile("Always|OnFailure|Never|ExitCode"), "template": POD}
SCHEMA = {
    "apiVersion": re.compile("kubeflow.org/v1"),
    "kind": re.compile("PyTorchJob"),
    "metadata": {"name": re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")},
    "spec": {
        "nprocPerNode": re.compile("auto|cpu|gpu|[0-9]+"),
        "runPolicy": {"backoffLimit": int, "cleanPodPolicy": re.compile("None|All|Running")},
        "pytorchReplicaSpecs!": {"Master": REPLICA, "Worker": REPLICA},
    },
}


def violations(value: Any, schema: Any, at: str = "") -> Iterator[str]:
    """Yields the parts of a document that do not fit a schema of dicts (objects), lists (arrays), types and
    patterns."""
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            yield f"{at}: expected an object, got {value!r}"
            return
        known = {name.removesuffix("!"): kind for name, kind in schema.items()}
        yield from (f"{at}.{name}: is missing" for name in known if f"{name}!" in schema and name not in value)
        yield from (f"{at}.{name}: is unknown" for name in value.keys() - known.keys())
        for name in value.keys() & known.keys():
            yield from violations(value[name], known[name], f"{at}.{name}")
    elif isinstance(schema, list):
        if not isinstance(value, list):
            yield f"{at}: expected an array, got {value!r}"
            return
        for i, one in enumerate(value):
            yield from violations(one, schema[0], f"{at}[{i}]")
    elif isinstance(schema, re.Pattern):
        # A quantity may be a number.
        is_text = isinstance(value, str) or (schema is QUANTITY and type(value) is int)
        if not is_text or not schema.fullmatch(str(value)):
            yield f"{at}: expected {schema.pattern}, got {value!r}"
    elif type(value) is not schema:
        yield f"{at}: expected {schema.__name__}, got {value!r}"


def test_kubernetes_schema() -> None:
    assert list(violations(JOB, SCHEMA)) == []
    replicas = JOB["spec"]["pytorchReplicaSpecs"]
    assert replicas["Master"]["replicas"] == 1
    for replica in replicas.values():
        pod = replica["template"]["spec"]
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]} == volumes
        (container,) = pod["containers"]
        assert str(container["resources"]["limits"]["nvidia.com/gpu"]) == JOB["spec"]["nprocPerNode"]

    wrong = copy.deepcopy(JOB)
    wrong["spec"]["nprocPerNode"] = 4
    wrong["spec"]["replicas"] = 2
    del wrong["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["image"]
    found = set(violations(wrong, SCHEMA))
    at = ".spec.pytorchReplicaSpecs.{}.template.spec.containers[0].image: is missing"
    of_spec = {".spec.nprocPerNode: expected auto|cpu|gpu|[0-9]+, got 4", ".spec.replicas: is unknown"}
    assert found == {*of_spec, at.format("Master"), at.format("Worker")}


def test_kubernetes(tmp_path: Path, program: Path, cache: Path) -> None:
    """The command of each pod, with the variables that the operator sets, one rank in each."""
    port = rank_environments(Config("", 1, 1))[0]["MASTER_PORT"]
    pods = []
    for rank, (kind, replica) in enumerate(JOB["spec"]["pytorchReplicaSpecs"].items()):
        (container,) = replica["template"]["spec"]["containers"]
        assert (kind == "Master") == (rank == 0) and replica["replicas"] == 1
        of_all = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "NNODES": "2", "NPROC_PER_NODE": "1", "NODE_RANK": str(rank)}
        of_pod = {f"PET_{name}": value for name, value in of_all.items()}
        of_pod |= {name: of_all[name] for name in ("MASTER_ADDR", "MASTER_PORT")} | {"WORLD_SIZE": "2", "RANK": str(rank)}
        of_file = {one["name"]: one.get("value", "0123456789abcdef") for one in container["env"]}
        words = [*container["command"], *container["args"]]
        replaced = {"/opt/fcdp/examples/finetune/finetune.py": str(program), "/shared": str(tmp_path)}
        for old, new in replaced.items():
            assert any(old in word for word in words)
            words = [word.replace(old, new) for word in words]
        variables = {"PATH": commands(tmp_path), "FCDP_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
        pods.append(subprocess.Popen(words, env=environment({**variables, **of_pod, **of_file}), cwd=tmp_path))
    try:
        assert [pod.wait(180) for pod in pods] == [0, 0]
    finally:
        for pod in pods:
            pod.kill()
    assert_ranks_met(tmp_path / "run", words[2:])
