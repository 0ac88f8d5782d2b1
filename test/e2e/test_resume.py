# SPDX-License-Identifier: Apache-2.0
"""Training goes on from what --params-out wrote."""

from pathlib import Path

import numpy as np
import pytest

from harness import Config, Workshop, parameters, read_log, run_command, tool


@pytest.mark.parametrize(
    ("model", "nodes", "local", "strategy"),
    [("gpt", 2, 2, "fcdp"), ("gpt", 2, 2, "ddp"), ("gpt", 2, 2, "hsdp"), ("convnet_bn", 1, 1, "fcdp")],
)
def test_goes_on_where_it_stopped(
    workshop: Workshop, tmp_path: Path, model: str, nodes: int, local: int, strategy: str
) -> None:
    # Plain SGD has no state beside the parameters; more ranks than one have buffers of their own.
    config = Config(model, nodes, local, strategy, optimizer="sgd,lr=0.1")
    whole, half = workshop.run(config, 4), workshop.run(config, 2)

    inputs = {}
    for name, path in workshop.model(model).inputs.items():
        inputs[name] = tmp_path / f"{name}.npy"
        np.save(inputs[name], np.roll(np.load(path), -2 * config.world, axis=0))
    log, out = tmp_path / "log.jsonl", tmp_path / "out.safetensors"
    tool(*run_command(workshop.step(config), half.parameters, inputs, 2, f"--json={log}", f"--params-out={out}"))

    assert half.losses + [step["loss"] for step in read_log(log)] == whole.losses
    trained, expected = parameters(out), parameters(whole.parameters)
    assert trained.keys() == expected.keys()
    for name in expected:
        assert trained[name].equal(expected[name]), name
