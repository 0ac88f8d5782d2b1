# SPDX-License-Identifier: Apache-2.0
"""The type in which gradients are reduced: bytes, bits, and the same policy in PyTorch's FSDP2."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import save_file

from checkpoints import read_checkpoint
from closed_forms import ACCUMULATION, TYPE_BYTES, traffic
from expectations import LIVE_RANGES, LOSS_TOLERANCE
from harness import ADAMW, Config, Workshop, assert_bit_equal, parameters, rank_environments, read_plan, relative_error
from harness import run_command, tool
from models import build
from python_ranks import run_ranks
from test_master import reference

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS = 4
WIDE = Config("gpt_bf16", reduce_dtype="f32")
NARROW = Config("gpt_autocast", reduce_dtype="bf16")
CASES = [
    WIDE,
    NARROW,
    replace(WIDE, strategy="zero3", micro_batches=2),
    replace(NARROW, strategy="zero1", micro_batches=3),
    replace(WIDE, strategy="ddp"),
    replace(NARROW, strategy="hsdp"),
    replace(NARROW, strategy="mics", micro_batches=2),
    replace(WIDE, micro_batches=2, accumulate="node_host"),
    replace(NARROW, strategy="zero3", collectives="flat"),
    Config("gpt", strategy="zero2", reduce_dtype="f16"),
]


@pytest.mark.parametrize("config", CASES, ids=lambda config: config.name)
def test_bytes_are_those_of_the_closed_forms(workshop: Workshop, config: Config) -> None:
    plan, plain = (read_plan(workshop.step(c)) for c in (config, replace(config, reduce_dtype="")))
    assert {bucket["reduce"] for bucket in plan["buckets"]} == {config.reduce_dtype}
    own = {bucket["reduce"] for bucket in plain["buckets"]}
    assert own == {"bf16" if config.model == "gpt_bf16" else "f32"}
    settings = config.strategy, LIVE_RANGES[config.model], config.accumulate, config.collectives or "two-level"
    once, each = traffic(plan, *settings)
    run = workshop.run(config, STEPS)
    assert run.traffic == [once + each] + [each] * (STEPS - 1)
    # Between nodes, only A Wr of each reduction changes.
    mode = config.accumulate or ACCUMULATION.get(config.strategy, "sharded")
    times = config.micro_batches if mode == "sharded" else 1
    flat = config.local if config.collectives == "flat" else 1
    change = TYPE_BYTES[config.reduce_dtype] - TYPE_BYTES[own.pop()]
    elements = sum(bucket["elements"] for bucket in plan["buckets"])
    assert elements == sum(bucket["elements"] for bucket in plain["buckets"])
    _, before = traffic(plain, *settings)
    assert each.inter - before.inter == (config.nodes - 1) * elements * change * times * flat // config.nodes


@pytest.mark.parametrize("config", [WIDE, NARROW], ids=lambda config: config.name)
@pytest.mark.parametrize("strategy", ["zero1", "zero2", "zero3", "hpz", "hsdp", "mics", "ddp"])
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_strategies_are_bit_equal(workshop: Workshop, config: Config, strategy: str, micro_batches: int) -> None:
    config = replace(config, micro_batches=micro_batches)
    accumulate = "sharded" if strategy in ("zero1", "mics") else ""
    assert_bit_equal(
        workshop.run(config, STEPS), workshop.run(replace(config, strategy=strategy, accumulate=accumulate), STEPS)
    )


def test_the_default_is_the_models_own_type(workshop: Workshop) -> None:
    """It makes no other file, and neither does the type in which a model computes its gradients."""
    for model, same in (("gpt_bf16", ("model", "bf16")), ("gpt", ("model", "f32"))):
        plain = workshop.step(Config(model)).read_bytes()
        for dtype in same:
            assert workshop.step(Config(model, reduce_dtype=dtype)).read_bytes() == plain


def test_float32_sums_are_those_of_pytorch(workshop: Workshop, tmp_path: Path) -> None:
    """Over two nodes nothing is rounded on the way but in float32, so that sums are as near as those of one node."""
    config = replace(WIDE, micro_batches=2, master="f32", optimizer=ADAMW)
    losses, masters = reference(workshop, config, STEPS)
    error = {}
    for dtype in ("f32", "model"):
        own = replace(config, reduce_dtype=dtype)
        model, out = workshop.model(own.model), tmp_path / dtype
        tool(*run_command(workshop.step(own), model.archive, model.inputs, STEPS, f"--save-dir={out}"))
        states = read_checkpoint(out / f"step-{STEPS:08}").states
        error[dtype] = sum((states["master", name] - value).abs().sum().item() for name, value in masters.items())
    assert relative_error(workshop.run(config, STEPS).losses, losses) <= 1e-4
    assert error["f32"] < error["model"] / 4, error


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_narrow_sums_are_near_those_of_float32(workshop: Workshop, dtype: str) -> None:
    config = replace(NARROW, reduce_dtype=dtype)
    narrow, wide = (workshop.run(c, STEPS).losses for c in (config, replace(config, reduce_dtype="f32")))
    assert narrow != wide
    assert relative_error(narrow, wide) <= LOSS_TOLERANCE[config.model]


def fsdp2(config: Config, workshop: Workshop, out: Path, policy: str) -> list[float]:
    """Losses of PyTorch's fully_shard with a mixed precision policy; parameters in float32 are in fsdp2.safetensors."""
    script = Path(__file__).parent / "models" / "fsdp2.py"
    job = {
        "model": "gpt",
        "inputs": {name: str(path) for name, path in workshop.model(config.model).inputs.items()},
        "steps": STEPS,
        "policy": policy,
        "optimizer": config.optimizer,
        "out": str(out),
    }
    run_ranks(script, [json.dumps(job)], rank_environments(config))
    return json.loads((out / "losses.json").read_text())


@pytest.mark.parametrize("policy", ["f32", "model"])
def test_policies_of_fsdp2(workshop: Workshop, tmp_path: Path, policy: str) -> None:
    """MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32 or None) on a model in float32."""
    config = Config("gpt_bf16", 1, 2, master="f32", reduce_dtype=policy, optimizer=ADAMW)
    weights = {name: value.detach() for name, value in build("gpt").named_parameters()}
    save_file(weights, tmp_path / "weights.safetensors")
    losses = fsdp2(config, workshop, tmp_path, policy)
    model = workshop.model(config.model)
    out = tmp_path / "log.jsonl"
    command = run_command(workshop.step(config), tmp_path / "weights.safetensors", model.inputs, STEPS, f"--json={out}")
    tool(*command, f"--save-dir={tmp_path / 'run'}")
    own = [json.loads(line)["loss"] for line in out.read_text().splitlines() if "loss" in line]
    states = read_checkpoint(tmp_path / "run" / f"step-{STEPS:08}").states
    theirs = parameters(tmp_path / "fsdp2.safetensors")
    assert set(theirs) == {name for role, name in states if role == "master"}
    difference = sum((states["master", name] - value).abs().sum().item() for name, value in theirs.items())
    moved = sum((states["master", name] - value).abs().sum().item() for name, value in weights.items())
    assert relative_error(own, losses) <= (1e-4 if policy == "f32" else LOSS_TOLERANCE[config.model])
    assert difference < (0.02 if policy == "f32" else 0.2) * moved, (difference, moved)
