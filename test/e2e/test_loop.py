# SPDX-License-Identifier: Apache-2.0
"""fcdp.compile in a loop of PyTorch trains as fcdp-run does, bit for bit, and goes on from its checkpoints."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from evaluated import evaluation_data, step_with_evaluation
from harness import (
    ADAMW,
    Config,
    Workshop,
    environment,
    parameters,
    rank_environments,
    read_log,
    run_command,
    started,
    tool,
)
from models import build
from python_ranks import Printed, run_ranks

SCRIPT = Path(__file__).with_name("looped.py")


def run_looped(
    workshop: Workshop,
    config: Config,
    steps: tuple[int, int],
    run: Path,
    *,
    script: Path = SCRIPT,
    timeout: float = 180,
    exit_code: int = 0,
    **more: Any,
) -> list[Printed]:
    """Runs looped.py, or a program made of it, with `more` arguments of fcdp.compile."""
    run.mkdir(exist_ok=True)
    compiled = json.dumps({"optimizer": config.optimizer, "strategy": config.strategy, **more})
    inputs = next(iter(workshop.model(config.model).inputs.values())).parent
    arguments = [config.model, inputs, config.micro_batches, *steps, run / "cache", run, compiled]
    environments = rank_environments(config) if config.world > 1 else [environment()]
    return run_ranks(script, arguments, environments, timeout, exit_code)


def train(workshop: Workshop, config: Config, steps: tuple[int, int], run: Path, **arguments: Any) -> list[float]:
    return [float(line) for line in run_looped(workshop, config, steps, run, **arguments)[0].out.splitlines()]


@pytest.mark.parametrize(
    "config", [Config("gpt", 2, 2, "fcdp", 2, ADAMW), Config("gpt_tied", 1, 1, "zero2", 1, ADAMW)], ids=lambda c: c.name
)
def test_trains_as_fcdp_run_and_goes_on(workshop: Workshop, tmp_path: Path, config: Config) -> None:
    expected = workshop.run(config, 4)
    run = tmp_path / "run"
    assert train(workshop, config, (0, 2), run) == expected.losses[:2]
    assert len(list((run / "cache").iterdir())) == 1
    assert train(workshop, config, (2, 4), run) == expected.losses[2:]
    # The second job found what the first one compiled.
    assert len(list((run / "cache").iterdir())) == 1
    state = torch.load(run / "state-4.pt")
    assert state.keys() == build(config.model).state_dict().keys()
    for name, value in parameters(expected.parameters).items():
        assert torch.equal(state[name], value), name


@pytest.mark.parametrize(
    "config", [Config("gpt", 2, 2, "fcdp", 2, ADAMW), Config("mlp_dropout", 1, 2, "zero3", 1, ADAMW)], ids=lambda c: c.name
)
def test_evaluates_as_fcdp_run(workshop: Workshop, tmp_path: Path, config: Config) -> None:
    """Losses of steps are those without an evaluation."""
    expected = workshop.run(config, 2)
    model, (_, files) = workshop.model(config.model), evaluation_data(workshop, config.model)
    log, mesh = tmp_path / "log.jsonl", (f"--nodes={config.nodes}", f"--ranks-per-node={config.local}")
    rows = [f"--eval-input={name}={path}" for name, path in files.items()]
    tool(*run_command(step_with_evaluation(workshop, config), model.archive, model.inputs, 2, *mesh, *rows, f"--json={log}"))
    folder = str(next(iter(files.values())).parent)
    losses = train(workshop, config, (0, 2), tmp_path / "run", evaluation=folder)
    assert losses == [*expected.losses, read_log(log)[-1]["evaluation_loss"]]


def test_optimizer_of_pytorch_with_groups(workshop: Workshop, tmp_path: Path) -> None:
    """The same losses as with the text of the same settings and groups."""
    groups = ("*.bias:weight_decay=0.0,lr=0.5",)
    config = Config("mlp_dropout", 1, 2, "fcdp", 1, "adamw,lr=1e-3,eps=1e-3,weight_decay=0.1", groups=groups)
    assert train(workshop, config, (0, 3), tmp_path / "run", optimizer="of PyTorch") == workshop.run(config, 3).losses


TWO_RANKS = """
import sys
import torch
from torch import nn
import fcdp

def compiled(seed, model=None, **arguments):
    torch.manual_seed(seed)
    model = model or nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1))
    example = (torch.zeros(2, 4), torch.zeros(2, 1))
    return fcdp.compile(model, example, loss_fn=nn.functional.mse_loss, cache=sys.argv[1], **arguments)

def refused(make):
    try:
        make()
    except fcdp.StepError as error:
        return f"{error.code}: {error}"

x, y = torch.ones(2, 4), torch.ones(2, 1)
step = compiled(0)
first = step(x, y)
assert step.figures["inter_bytes"] == 0 and step.figures["intra_bytes"] > 0
step.learning_rate = 0.5
assert step.learning_rate == 0.5 and step.num_steps == 1
assert "close it before another is compiled" in refused(lambda: compiled(0))
states = step.state_dict(), step.optimizer_state_dict()
assert bool(states[0]) == bool(states[1]) == (step.rank == 0)
second = step(x, y)
assert "compiled with eval_inputs" in refused(lambda: step.evaluate([(x, y)]))
step.close()
assert refused(lambda: step(x, y)) == "misuse: the step is closed"

# The states of one step set in another one, after one update: the loss of the second step.
store = torch.distributed.FileStore(sys.argv[2], 2)
if step.rank == 0:
    torch.save(states, sys.argv[2] + ".pt")
    store.set("saved", "yes")
store.wait(["saved"])
model, optimizer = torch.load(sys.argv[2] + ".pt")
step = compiled(1)
step.load_state_dict(model)
step.load_optimizer_state_dict(optimizer)
step.learning_rate = 0.5
assert step(x, y) == second, (first, second)
step.close()

# An evaluation has batches of its own shape, and draws nothing.
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
step = compiled(0, model, eval_inputs=(torch.zeros(3, 4), torch.zeros(3, 1)), options=["--clip-norm=0.01"])
assert model.training and model[1].training
rows = torch.arange(12).reshape(3, 4) / 12, torch.ones(3, 1)
loss = step.evaluate([rows, rows])
assert torch.allclose(step.evaluate(iter([rows])), loss) and step.num_steps == 0 and not step.figures
with torch.no_grad():
    assert torch.allclose(loss.float(), nn.functional.mse_loss(model.eval()(rows[0]), rows[1]))
assert step.evaluation_figures["intra_bytes"] > 0
step(x, y)
assert step.figures["gradient_norm"] > 0 and 0 <= step.figures["exposed_seconds"] <= step.figures["seconds"]
expected = "input mismatch: expected as many batches on each rank, got 1 on rank 0 and 2 on rank 1"
assert refused(lambda: step.evaluate([rows] * (1 + step.rank))) == expected
shapes = refused(lambda: step.evaluate([(x, y)]))
assert shapes.startswith("input mismatch: 'input': expected the shape of the example, [3, 4], got [2, 4]: drop the last batch"), shapes
assert refused(lambda: step.evaluate([])) == "misuse: expected at least one batch to evaluate"
assert step.evaluate([rows]) < loss
step.close()

message = refused(lambda: compiled(step.rank))
assert "misuse: rank 1 has other values than rank 0" in message, message

# Each rank has an argument of its own.
given = {
    "strategy": ("fcdp", "zero3"),
    "options": ([], ["--clip-norm=1"]),
}
for name, (first, second) in given.items():
    message = refused(lambda: compiled(0, **{name: second if step.rank else first}))
    assert f"the ranks differ in {name}: " in message and "on rank 0 (node 0, local 0); " in message, message
"""


def test_values_states_and_misuse(tmp_path: Path) -> None:
    """Also in interpreters of their own, which have imported nothing else, and hash strings unlike each other."""
    script = tmp_path / "two_ranks.py"
    script.write_text(TWO_RANKS)
    command: list[str | Path] = [sys.executable, script, tmp_path / "cache", tmp_path / "exchange"]
    with started([(command, variables) for variables in rank_environments(Config("", 1, 2))]) as ranks:
        errors = [rank.communicate(timeout=120)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], errors


SCALER = """
import sys
import torch
from torch import nn
import fcdp

def compiled(**arguments):
    torch.manual_seed(0)
    model, options = nn.Linear(4, 1), arguments.pop("options", ["--loss-scale=on"])
    example = (torch.ones(2, 4), torch.zeros(2, 1))
    return fcdp.compile(model, example, loss_fn=nn.functional.mse_loss, cache=sys.argv[1], options=options, **arguments)

def scales(step, steps):
    found = []
    for _ in range(steps):
        step(torch.ones(2, 4), torch.zeros(2, 1))
        found.append(step.figures["loss_scale"])
    return found

with compiled(loss_scale="init=1024,growth=4,backoff=0.25,interval=3") as step:
    assert scales(step, 4) == [1024, 1024, 1024, 4096]
    state = step.scaler_state_dict()
expected = {"scale": 4096.0, "growth_factor": 4.0, "backoff_factor": 0.25, "growth_interval": 3, "_growth_tracker": 1}
assert state == expected, state
scaler = torch.amp.GradScaler("cpu")
scaler.load_state_dict(state)
assert scaler.state_dict() == expected, scaler.state_dict()

with compiled() as step:
    assert step.scaler_state_dict() == torch.amp.GradScaler("cpu").state_dict() | {"scale": 65536.0}
    step.load_scaler_state_dict(scaler.state_dict())
    assert step.scaler_state_dict() == expected
    assert scales(step, 3) == [4096, 4096, 16384]
    try:
        step.load_scaler_state_dict(expected)
        raise AssertionError
    except fcdp.StepError as error:
        assert error.code == "misuse", error

with compiled(loss_scale="512") as step:
    fixed = step.scaler_state_dict()
    assert (fixed["scale"], fixed["growth_factor"], fixed["backoff_factor"]) == (512, 1, 1)
with compiled() as step:
    step.load_scaler_state_dict(fixed)
    assert scales(step, 2) == [512, 512] and step.scaler_state_dict() == fixed

with compiled(options=[]) as step:
    assert step.scaler_state_dict() == {}
    for state, message in ((expected, "--loss-scale=on"), ({}, "no 'scale'")):
        try:
            step.load_scaler_state_dict(state)
            raise AssertionError
        except fcdp.StepError as error:
            assert message in str(error), error
"""


def test_state_of_the_loss_scale(tmp_path: Path) -> None:
    """It is that of torch.amp.GradScaler, which takes it and gives it."""
    script = tmp_path / "scaler.py"
    script.write_text(SCALER)
    run_ranks(script, [tmp_path / "cache"], [environment()])


CONSTANTS = """
import sys
import torch
import torch.nn.functional as F
from torch import nn
import fcdp

class Scaled(nn.Module):
    def __init__(self, is_scaled=True):
        super().__init__()
        self.layer, self.is_scaled = nn.Linear(4, 3), is_scaled
        self.register_buffer("bias", torch.full((3,), 0.5), persistent=False)
        self.scale = torch.full((3,), 2.0)

    def forward(self, x):
        y = self.layer(x) + self.bias
        return y * self.scale * torch.tensor([1.0, 2.0, 3.0]) if self.is_scaled else y

torch.manual_seed(0)
x, labels, teacher = torch.randn(4, 4), torch.tensor([0, 1, 2, 1]), nn.Linear(4, 3).requires_grad_(False)
weighted, taught = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 3.0, 2.0])), lambda output, x: F.mse_loss(output, teacher(x))

def trained(model, target, loss_fn, **arguments):
    with fcdp.compile(model, (x, target), loss_fn=loss_fn, optimizer="sgd,lr=0.1", cache=sys.argv[1], **arguments) as step:
        losses = [step(x, target).item() for _ in range(3)]
        if "eval_inputs" in arguments:
            losses.append(step.evaluate([(x, target)]).item())
        assert sorted(step.state_dict()) == sorted(model.state_dict())
    return losses

def expected(model, target, loss_fn):
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(4):
        loss = loss_fn(model(x), target)
        losses.append(loss.item())
        optimizer.zero_grad(), loss.backward(), optimizer.step()
    return losses

def same(found, wanted):
    assert torch.allclose(torch.tensor(found), torch.tensor(wanted[: len(found)])), (found, wanted)

def compare(model, target, loss_fn, **arguments):
    found = trained(model, target, loss_fn, **arguments)
    same(found, expected(model, target, loss_fn))

compare(Scaled(), labels, weighted, eval_inputs=(x, labels))
compare(Scaled(False), x, taught)
# Another teacher is another step, though the graph is the same.
with torch.no_grad():
    teacher.weight.mul_(-2)
compare(Scaled(False), x, taught, eval_inputs=(x, x))
"""


def test_tensors_that_are_no_parameters_or_buffers(tmp_path: Path) -> None:
    """Weights of classes, a tensor attribute, one that forward makes, and a teacher in loss_fn."""
    script = tmp_path / "constants.py"
    script.write_text(CONSTANTS)
    run_ranks(script, [tmp_path / "cache"], [environment()])


CHECKPOINTED = """
import sys
import torch
from torch import nn
import fcdp

def compiled():
    torch.manual_seed(0)
    example = (torch.ones(2, 4), torch.zeros(2, 1))
    return fcdp.compile(nn.Linear(4, 1), example, loss_fn=nn.functional.mse_loss, cache=sys.argv[1])

def refused(make):
    try:
        make()
    except fcdp.StepError as error:
        return f"{error.code}: {error}"

job, schedule = {"epoch": 3, "seen": [1, 2]}, "cosine,warmup=2,steps=10,min=0.5"
with compiled() as step:
    assert step.schedule == "constant" and step.resume(sys.argv[2]) is None
    step.open_checkpoints(sys.argv[2])
    step.schedule, step.learning_rate = schedule, 0.25
    step(torch.ones(2, 4), torch.zeros(2, 1))
    for name in ("schedule", "learning_rate", "loss_scale"):
        assert f"job: '{name}' is the session's own" in refused(lambda: step.save(job | {name: 1}))
    step.save(job)
    rate = step.learning_rate
with compiled() as step:
    assert step.resume(sys.argv[2]) == job
    assert (step.schedule, step.learning_rate) == (schedule, rate)
"""


def test_schedule_and_job_of_a_checkpoint(tmp_path: Path) -> None:
    """The program gets its own members back, and the step has the others."""
    script = tmp_path / "checkpointed.py"
    script.write_text(CHECKPOINTED)
    run_ranks(script, [tmp_path / "cache", tmp_path / "run"], [environment()])


BITS = """
import sys
import torch
from torch import nn
import fcdp

def losses(**arguments):
    torch.manual_seed(0)
    example = (torch.ones(2, 4), torch.ones(2, 1))
    with fcdp.compile(nn.Linear(4, 1), example, loss_fn=nn.functional.mse_loss, cache=sys.argv[1], **arguments) as step:
        return [step(*example) for _ in range(3)]

def refusal(**arguments):
    try:
        losses(**arguments)
    except fcdp.StepError as error:
        return f"{error.code}: {error}"

plain = losses()
assert not torch.are_deterministic_algorithms_enabled()
assert losses(deterministic=True) == plain
assert not torch.are_deterministic_algorithms_enabled()
expected = "no device: reductions by NCCL: expected a step that was compiled for 'cuda', got one for 'cpu'"
assert refusal(reductions_by="nccl") == expected
assert refusal(reductions_by="ring") == "misuse: reductions_by: expected 'fcdp' or 'nccl', got 'ring'"
in_files = ["--states=file"]
assert losses(options=in_files, state_path=sys.argv[2]) == plain
assert "bytes of states in files on each rank: expected folders" in refusal(options=in_files)
"""


def test_bits_of_options_and_what_sums(tmp_path: Path, workshop: Workshop) -> None:
    script = tmp_path / "bits.py"
    script.write_text(BITS)
    run_ranks(script, [tmp_path / "cache", workshop.state_folder], [environment()])


AMBIENT = """
import contextlib
import sys
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
import fcdp

class Model(nn.Module):
    # A type that follows the default, a bool-times-number product, sums in any order and a large product.
    def __init__(self):
        super().__init__()
        self.embed, self.inner = nn.Embedding(7, 64), nn.Linear(64, 64)
        self.register_buffer("sign", torch.ones(64))

    def forward(self, ids, x):
        hidden = self.inner(self.embed(ids) * (ids[..., None] * 0.5) + x) * self.sign
        return nn.functional.layer_norm(hidden, (64,)).tanh().square().mean()

def compiled(around=contextlib.nullcontext):
    torch.manual_seed(0)
    model = Model()
    example = (torch.zeros(8, 16, dtype=torch.int64), torch.zeros(8, 16, 64))
    with around():
        return fcdp.compile(model, example, optimizer="adamw,lr=1e-2", cache=sys.argv[1], threads=1)

@contextlib.contextmanager
def setting(change, value, former):
    change(value)
    try:
        yield
    finally:
        change(former)

def deterministic(isOn):
    torch.use_deterministic_algorithms(isOn)

AROUND = [
    contextlib.nullcontext,
    lambda: torch.autocast("cpu", torch.bfloat16),
    torch.inference_mode,
    torch.no_grad,
    lambda: setting(torch.set_default_dtype, torch.float64, torch.float32),
    lambda: setting(torch.set_default_dtype, torch.bfloat16, torch.float32),
    lambda: torch.device("meta"),
    lambda: setting(torch.set_default_device, "meta", None),
    lambda: setting(deterministic, True, False),
    lambda: setting(torch.set_num_threads, 3, 1),
    lambda: setting(torch.set_float32_matmul_precision, "medium", "highest"),
    lambda: setting(torch.set_flush_denormal, True, False),
    lambda: torch.backends.mkldnn.flags(enabled=False),
    lambda: FlopCounterMode(display=False),
    lambda: torch.profiler.profile(),
    lambda: torch.autograd.forward_ad.dual_level(),
    lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: None, lambda t: None),
    contextlib.nullcontext,
]

def batch(k):
    generator = torch.Generator().manual_seed(k)
    return torch.randint(0, 7, (8, 16), generator=generator), torch.randn(8, 16, 64, generator=generator)

def train(around):
    with compiled() as step:
        losses = []
        for k, one in enumerate(around):
            inputs = batch(k)
            with one():
                losses.append(step(*inputs).item())
        return losses, step.state_dict(), step.optimizer_state_dict()

expected = train([contextlib.nullcontext] * len(AROUND))
# In that order, and with the states of the first step in another one.
for around in (AROUND, AROUND[1:] + AROUND[:1]):
    losses, values, states = train(around)
    assert losses == expected[0], list(zip(losses, expected[0]))
    assert all(torch.equal(value, expected[1][name]) for name, value in values.items())
    assert all(torch.equal(value, expected[2][name][key]) for name, of in states.items() for key, value in of.items())

# What a session does not change. While it is open, it has its own number of threads.
torch.set_num_threads(2)
with compiled() as step:
    assert torch.get_num_threads() == 1
    step(*batch(0))
assert torch.get_num_threads() == 2
assert torch.get_default_dtype() == torch.float32
assert not torch.are_deterministic_algorithms_enabled()

# A step that is compiled inside of them.
for around in (torch.inference_mode, torch.no_grad):
    with compiled(around) as step:
        losses = [step(*batch(k)).item() for k in range(2)]
    assert losses == expected[0][:2], (losses, expected[0])

# Inputs and values that are marked as negative of what their memory has.
with compiled() as step:
    values = {name: torch._neg_view(-value) for name, value in step.state_dict().items()}
    assert all(value.is_neg() and value.is_contiguous() for value in values.values())
    step.load_state_dict(values)
    ids, x = batch(0)
    assert step(ids, torch._neg_view(-x)).item() == expected[0][0]
"""


def test_what_is_around_a_step_does_not_change_it(tmp_path: Path) -> None:
    script = tmp_path / "ambient.py"
    script.write_text(AMBIENT)
    run_ranks(script, [tmp_path / "cache"], [environment()])


MASKS = """
import sys
import torch
from torch import nn
from torch.nn.utils.parametrizations import orthogonal
import fcdp

class Mixed(nn.Module):
    # Images are put in where a token is 9, as vision and language models do; orthogonal() has a matrix_exp.
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.vision, self.head = nn.Embedding(10, 8), orthogonal(nn.Linear(8, 8)), nn.Linear(8, 10)

    def forward(self, ids, image):
        x = self.embed(ids)
        x = x.masked_scatter((ids == 9)[..., None].expand_as(x), self.vision(image))
        return nn.functional.cross_entropy(self.head(torch.tanh(x)).flatten(0, 1), ids.flatten())

def batch(kind, k):
    generator = torch.Generator().manual_seed(k)
    ids = torch.randint(0, 9, (4, 6), generator=generator)
    ids[:, : {"none": 0, "some": 2, "all": 6}[kind]] = 9
    return ids, torch.randn(24, 8, generator=generator)

def losses(step, kinds):
    found = []
    for k, kind in enumerate(kinds):
        (a, x), (b, y) = batch(kind, 2 * k), batch(kinds[-k], 2 * k + 1)
        found.append(step([(a, x), (b, y)]))
    return torch.tensor(found)

def eager(kinds):
    model = Mixed()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    def step(batches):
        optimizer.zero_grad()
        total = sum(model(*batch) / 2 for batch in batches)
        total.backward(), optimizer.step()
        return total.item()
    return losses(step, kinds)

for kinds in ("none none some all none some".split(), "all none some none all all".split()):
    with fcdp.compile(Mixed(), batch("some", 0), optimizer="sgd,lr=0.5", micro_batches=2, cache=sys.argv[1]) as step:
        found = losses(step.run, kinds)
    assert torch.allclose(found.float(), eager(kinds).float(), rtol=1e-4), (found, eager(kinds))
"""


def test_masks_may_be_empty_or_full(tmp_path: Path) -> None:
    """masked_scatter needs other memory then, and matrix_exp for other matrices."""
    script = tmp_path / "masks.py"
    script.write_text(MASKS)
    run_ranks(script, [tmp_path / "cache"], [environment()])


def test_error_of_one_rank_ends_the_others(workshop: Workshop, tmp_path: Path) -> None:
    """The others learn its text at once; no rank waits for a time-out."""
    script = tmp_path / "rank1_fails.py"
    script.write_text(
        SCRIPT.read_text()
        .replace("Path(__file__).resolve().parent", repr(SCRIPT.parent).replace("PosixPath", "Path"))
        .replace("            own = ", "            if number == 1 and step.rank == 1:\n                raise ValueError('no rows left')\n            own = ")
    )
    ranks = run_looped(workshop, Config("mlp_dropout", 1, 2), (0, 3), tmp_path / "run", script=script, timeout=60, exit_code=1)
    assert "ValueError: no rows left" in ranks[1].error.splitlines()[-1]
    assert "rank 1 (node 0, local 1) failed: ValueError: no rows left" in ranks[0].error.splitlines()[-1]
