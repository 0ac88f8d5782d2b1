# SPDX-License-Identifier: Apache-2.0
"""fcdp-sim on mixtures of experts: operations, bytes and times of the ways to compute one, beside what they should
be."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import fcdp  # noqa: E402
import transformers  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "simulator"))

import shapes  # noqa: E402
from mixtral import Mixtral  # noqa: E402
from simulation import load_preset  # noqa: E402
from steps import BATCH, SEQUENCE, Steps, count_parameters, export, reshape  # noqa: E402
from test_simulator_validation import TOOLS, without_places  # noqa: E402

WIDTH, INNER, LAYERS, EXPERTS, CHOSEN, HEADS, VOCABULARY, SEQUENCES, LENGTH = 128, 256, 1, 8, 2, 4, 64, 1, 4
TOKENS = SEQUENCES * LENGTH
LOADS = (5, 2, 1)
WAYS = ["grouped_mm", "batched_mm", "loop"]


def tiny(loads: tuple[int, ...]) -> Mixtral:
    return Mixtral("tiny", WIDTH, HEADS, LAYERS, INNER, VOCABULARY, dtype=torch.bfloat16, experts=EXPERTS, chosen=CHOSEN, loads=loads)


class Loss(torch.nn.Module):
    """Mixtral of Transformers, whose experts multiply by `implementation`."""

    def __init__(self, implementation: str) -> None:
        super().__init__()
        config = transformers.MixtralConfig(
            hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=HEADS,
            num_local_experts=EXPERTS, num_experts_per_tok=CHOSEN, vocab_size=VOCABULARY, use_cache=False, attn_implementation="sdpa",
        )  # fmt: skip
        self.model = transformers.MixtralForCausalLM(config).bfloat16()
        self.model.set_experts_implementation(implementation)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, labels=labels, use_cache=False).loss


@pytest.fixture(scope="module")
def steps(tmp_path_factory) -> dict[str, Path]:
    """Returns the steps by the way to compute the experts."""
    folder = tmp_path_factory.mktemp("mixtures")
    ids = torch.zeros(SEQUENCES, LENGTH, dtype=torch.int64)
    paths = {name: folder / f"{name}.pt2" for name in ("grouped_mm", "batched_mm")}
    for name, path in paths.items():
        fcdp.export(Loss(name), (ids, ids.clone()), path, check=False)
    paths["loop"] = folder / "loop.mlir"
    paths["loop"].write_text(export(tiny(LOADS), SEQUENCES, LENGTH, TOOLS))
    return paths


def describe(flops: float = 1e30, bandwidth: float = 1e30, **device) -> dict:
    """Returns a cluster whose operators take the time of their arithmetic and of their bytes, and nothing besides."""
    cluster = load_preset("h100")
    kept = {key: cluster["device"][key] for key in ("memory", "reserved")}
    rates = {"flops": dict.fromkeys(("f64", "f32", "bf16", "f16"), flops), "memory_bandwidth": bandwidth}
    even = {"compute_efficiency": 1, "memory_efficiency": 1, "launch_latency": 0}
    return {**cluster, "device": {**kept, **rates, **even, **device}, "host": {"memory": 1e12}}


def simulate(step: Path, cluster: dict, *options: str) -> dict:
    description = step.with_suffix(".yaml")
    description.write_text(yaml.safe_dump(cluster))
    command = [TOOLS / "fcdp-sim", step, f"--cluster={description}", "--nodes=1", "--ranks-per-node=1", "--strategy=zero3", "--json"]
    return json.loads(subprocess.run([*command, *options], stdout=subprocess.PIPE, check=True).stdout)["steps"][0]


def time_operators(step: Path, cluster: dict) -> dict[str, float]:
    """Returns the seconds of all calls of each operator."""
    trace = step.with_suffix(".json")
    simulate(step, cluster, f"--trace={trace}")
    seconds: dict[str, float] = {}
    for event in json.loads(trace.read_text())["traceEvents"]:
        if event["ph"] == "X" and event["name"].startswith("aten."):
            name = event["name"].split(".")[1]
            seconds[name] = seconds.get(name, 0) + 1e-6 * event["dur"]
    return seconds


@pytest.mark.parametrize("way", WAYS)
def test_operations_are_those_of_the_chosen_experts(steps, way):
    layer = 4 * WIDTH**2 + WIDTH * EXPERTS + CHOSEN * 3 * WIDTH * INNER
    linear = 3 * 2 * TOKENS * (LAYERS * layer + WIDTH * VOCABULARY)
    scores = 2 * LAYERS * SEQUENCES * LENGTH**2 * WIDTH  # two products, of which causal attention computes half
    found = simulate(steps[way], describe(flops=1e9))
    assert found["flops"] == pytest.approx({**found["flops"], "model": linear + 3 * scores, "executed": linear + 3.5 * scores})
    # Attention runs at 0.4 of the rate if a device does not say at which.
    assert found["on_compute_stream"]["compute"] == pytest.approx((linear + 3.5 * scores / 0.4) / 1e9)


# How often a way accesses the matrices of all experts: read by the forward pass and for the gradients of the inputs,
# written as gradients. There are as many choices as experts here, so the copies for each choice are as large as all
# matrices. The loop accesses those of experts with tokens.
ACCESSES = {
    "grouped_mm": {"_grouped_mm": 3},
    # Copies are written, read and written as gradients. These are summed in the place of all matrices, which is read
    # and written.
    "batched_mm": {"index": 2, "bmm": 3, "new_zeros": 1, "index_put": 3},
    "loop": {"mm": 3 * len(LOADS) / EXPERTS},
}


@pytest.mark.parametrize("way", ACCESSES)
def test_bytes_are_those_of_the_matrices(steps, way):
    matrices = 2 * LAYERS * EXPERTS * 3 * WIDTH * INNER
    found = time_operators(steps[way], describe(bandwidth=1e9))
    accesses = {name: 1e9 * found[name] / matrices for name in ACCESSES[way]}
    # The rest are a few tokens and, in mm, the other linear layers.
    others = 3 * 2 * LAYERS * 4 * WIDTH**2 / matrices
    assert accesses == {name: pytest.approx(times, abs=0.1 + others * (name == "mm")) for name, times in ACCESSES[way].items()}


def test_skew_concerns_grouped_products_alone(steps):
    def time(way: str, skew: int) -> dict[str, float]:
        return time_operators(steps[way], {**describe(flops=1e9, processors=1), "expert_skew": skew})

    for way in ("batched_mm", "loop"):
        assert time(way, 1) == pytest.approx(time(way, 0))
    balanced, skewed = (time("grouped_mm", skew) for skew in (0, 1))
    # 8 choices are 3, 1, 1, 1 and 1: five tiles of 64 rows in place of eight, at 0.75 of the rate (Device.cpp), in the
    # forward pass and for the gradients of the inputs. Gradients of the matrices are sums over 7 rows in place of 8.
    passes = {experts: 2 * experts * 64 / 0.75 for experts in (5, 8)}
    assert skewed["_grouped_mm"] / balanced["_grouped_mm"] == pytest.approx((passes[5] + 7) / (passes[8] + 8))
    assert skewed["mm"] == pytest.approx(balanced["mm"])


def test_a_loop_is_reshaped_as_exported(steps):
    shape = tiny(LOADS)
    assert shape.divided == (1, 4)
    reshaped = reshape(export(shape, BATCH, SEQUENCE * 4, TOOLS), SEQUENCES, LENGTH // 4)
    assert without_places(reshaped) == without_places(steps["loop"].read_text())


def test_loads_are_whole_numbers_of_tokens(tmp_path):
    with pytest.raises(ValueError, match=r"tiny: expected a batch and a sequence that \(1, 4\) divide, got 1 and 6"):
        Steps(tmp_path, TOOLS).write(tiny(LOADS), 1, 6, tmp_path / "step.mlir")


def test_experts_without_tokens_are_parameters_without_gradients():
    shape = shapes.mixtral("mixtral-8x7b", loads=(1, 1))
    assert count_parameters(shape) == pytest.approx(46.703e9, abs=1e6)  # Mistral's announcement: 46.7 billion, of which 12.9 a token
    assert count_parameters(shape) - shape.idle_parameters == pytest.approx(12.880e9, abs=1e6)
    with torch.device("meta"):
        model = tiny((1, 1)).make(LENGTH)
    ids = torch.zeros(SEQUENCES, LENGTH, dtype=torch.int64, device="meta")
    model(ids, ids).backward()
    idle = sum(parameter.numel() for parameter in model.parameters() if parameter.grad is None)
    assert idle == tiny((1, 1)).idle_parameters == LAYERS * 6 * 3 * WIDTH * INNER
