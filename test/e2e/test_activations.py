# SPDX-License-Identifier: Apache-2.0
"""Values of the forward pass in host memory, --activations: the bits of steps that keep them on the device."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import fcdp
from harness import (
    BIN,
    ROOT,
    Config,
    ToolError,
    Workshop,
    assert_bit_equal,
    compile_command,
    parameters,
    read_log,
    read_plan,
    run_command,
    tool,
)

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine whose copies to host memory have no latency, so that small values are moved, too."""
    path = tmp_path_factory.mktemp("cluster") / "copies.yaml"
    text = (ROOT / "cluster/cpu.yaml").read_text()
    head, copies = text.split("h2d:", 1)
    path.write_text(head + "h2d:" + copies.replace("latency: 2e-6", "latency: 0").replace("3.5e9", "1e11"))
    return path


def count(plan: dict, kind: str) -> int:
    return sum(op["kind"] == kind for op in plan["ops"])


@pytest.mark.parametrize(
    ("model", "strategy", "micro_batches", "remat"),
    [("gpt", "zero3", 1, ""), ("gpt", "fcdp", 2, "unit"), ("hf_llama", "fcdp", 1, ""), ("convnet_bn", "zero3", 2, "")],
)
def test_bits_and_memory(
    workshop: Workshop, cluster: Path, model: str, strategy: str, micro_batches: int, remat: str
) -> None:
    """Losses, parameters, planned and measured memory, and the bytes of copies."""
    device = Config(model, 1, 2, strategy, micro_batches, cluster=str(cluster), remat=remat)
    host = replace(device, activations="host")
    with_device, with_host = workshop.run(device, STEPS), workshop.run(host, STEPS)
    assert_bit_equal(with_device, with_host)
    before, plan = read_plan(workshop.step(device)), read_plan(workshop.step(host))
    functions = 1 if micro_batches == 1 else 3
    assert count(before, "store_value") == 0
    stored = count(plan, "store_value")
    assert stored >= 2 * functions and count(plan, "load_value") == count(plan, "drop_value") == stored
    assert plan["planned"]["device_bytes"] <= before["planned"]["device_bytes"]
    if model == "gpt":
        assert plan["planned"]["device_bytes"] < before["planned"]["device_bytes"]
        assert with_host.steps[-1]["device_peak_bytes"] - plan["planned"]["device_bytes"] == pytest.approx(
            with_device.steps[-1]["device_peak_bytes"] - before["planned"]["device_bytes"], abs=2**16
        )
    moved = with_host.traffic[-1].d2h - with_device.traffic[-1].d2h
    each = sum(op["out"]["bytes"] for op in plan["ops"] if op["kind"] == "store_value")
    assert moved == each // functions * micro_batches * device.local
    assert with_host.traffic[-1].h2d - with_device.traffic[-1].h2d == moved


def test_only_what_memory_demands(workshop: Workshop, cluster: Path) -> None:
    """'auto' moves nothing if the step fits, and less than 'host' if that is enough. A limit that nothing meets is an
    error."""
    model = workshop.model("gpt")
    config = Config("gpt", 1, 1, "zero3", cluster=str(cluster), activations="device")
    most = read_plan(workshop.step(config))["planned"]["device_bytes"]
    host = read_plan(workshop.step(replace(config, activations="host")))
    least = host["planned"]["device_bytes"]
    fitting = replace(config, activations="auto", device_memory=2 * most)
    assert count(read_plan(workshop.step(fitting)), "store_value") == 0
    tight = replace(config, activations="auto", device_memory=(most + least) // 2)
    plan = read_plan(workshop.step(tight))
    assert 0 < count(plan, "store_value") < count(host, "store_value")
    assert plan["planned"]["device_bytes"] <= tight.device_memory
    with pytest.raises(ToolError, match=r"the plan needs \d+ bytes of device memory per rank, expected at most 4096"):
        tool(*compile_command(replace(tight, device_memory=4096), model.archive, workshop.folder / "none.so"))
    assert_bit_equal(workshop.run(tight, STEPS), workshop.run(config, STEPS))


class Strided(nn.Module):
    """Saved values that are not contiguous: a result has the strides of a transposed operand."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = nn.functional.gelu(layer(x).transpose(0, 1) * 1.5).transpose(0, 1)
        return (x * x).mean()


def test_strides(tmp_path: Path, cluster: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 64)
    archive = tmp_path / "strided.pt2"
    fcdp.export(Strided(), (x,), archive)
    np.save(tmp_path / "x.npy", torch.randn(16, 64, 64).numpy())
    made = []
    for mode in ("device", "host"):
        config = Config("strided", 1, 1, "zero3", cluster=str(cluster), activations=mode)
        step, out, log = tmp_path / f"{mode}.so", tmp_path / f"{mode}.safetensors", tmp_path / f"{mode}.jsonl"
        tool(*compile_command(config, archive, step))
        inputs = {read_plan(step)["inputs"][0]["name"]: tmp_path / "x.npy"}
        tool(*run_command(step, archive, inputs, STEPS, "--nodes=1", "--ranks-per-node=1", f"--json={log}", f"--params-out={out}"))
        made.append(([line["loss"] for line in read_log(log)], parameters(out), count(read_plan(step), "store_value")))
    (device, device_values, none), (host, host_values, some) = made
    assert none == 0 and some >= 2
    assert device == host
    assert all(torch.equal(value, host_values[name]) for name, value in device_values.items())


def test_hidden_and_exposed(workshop: Workshop, cluster: Path, tmp_path: Path) -> None:
    """The simulator sees no wait for copies that 'host' chooses. Copies that a tight limit demands over a slow link
    are exposed, and the prediction says so."""
    archive = workshop.model("gpt").archive
    given = ["--nodes=1", "--ranks-per-node=1", "--strategy=zero3"]
    hidden = tool(BIN / "fcdp-sim", archive, *given, f"--cluster={cluster}", "--activations=host")
    assert not re.search("exposed host (load|store)", hidden)
    slow = tmp_path / "slow.yaml"
    slow.write_text(cluster.read_text().replace("1e11", "1e6"))
    config = Config("gpt", 1, 1, "zero3", cluster=str(cluster), activations="device")
    limit = f"--device-memory={read_plan(workshop.step(config))['planned']['device_bytes'] - 1}"
    exposed = tool(BIN / "fcdp-sim", archive, *given, f"--cluster={slow}", "--activations=auto", limit)
    assert re.search("exposed host (load|store)", exposed)
