# SPDX-License-Identifier: Apache-2.0
"""fcdp-ckpt convert --like: what PyTorch or Hugging Face stored becomes the state of a step."""

import json

import pytest
import torch
import torch.distributed.checkpoint as dcp
from made_checkpoints import Made, parameter, weights, write

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def states():
    return [
        *parameter(["embed.weight", "head.weight"], torch.randn(6, 4)),
        *parameter(["base"], torch.randn(3), trainable=False),
        Made(["norm.mean"], "buffer", tensors=[torch.randn(2) for _ in range(2)], settings={"persistent": True}),
        Made(["rotary"], "buffer", torch.randn(5), settings={"persistent": False}),
        Made(["torch"], "random", tensors=[torch.zeros(8, dtype=torch.uint8) for _ in range(2)]),
    ]


@pytest.fixture
def model(tmp_path, states):
    return write(tmp_path / "model", states, world_size=2)


def save_dcp(folder, states, more=None):
    """As a script does: tied names twice, buffers like parameters."""
    moments = {s.role: s.tensor for s in states if s.role.startswith("exp_avg")}
    optimizer = {"state": {"embed.weight": {**moments, "step": torch.tensor(7.0)}}}
    tensors = {name: tensor.clone() for name, tensor in weights(states).items()} | (more or {})
    dcp.save({"model": tensors, "optim": optimizer}, checkpoint_id=folder, no_dist=True)


def test_a_script_s_checkpoint_gets_ties_and_roles(tmp_path, ckpt, states, model):
    save_dcp(tmp_path / "dcp", states)
    assert ckpt("convert", tmp_path / "dcp", tmp_path / "out", "--to=fcdp", f"--like={model}").code == 0
    done = ckpt("diff", tmp_path / "out", tmp_path / "dcp")
    assert done.code == 0, done.out
    found = {(s["role"], *s["names"]): s for s in json.loads(ckpt("inspect", tmp_path / "out", "--json").out)["states"]}
    assert found.keys() == {
        ("value", "embed.weight", "head.weight"),
        ("exp_avg", "embed.weight", "head.weight"),
        ("exp_avg_sq", "embed.weight", "head.weight"),
        ("value", "base"),
        ("buffer", "norm.mean"),
    }
    assert found["value", "embed.weight", "head.weight"]["updates"] == 7
    assert found["value", "base"]["trainable"] is False


def test_weights_get_new_optimizer_states(tmp_path, ckpt, states, model):
    assert ckpt("convert", model, tmp_path / "w.safetensors", "--to=safetensors").code == 0
    assert ckpt("convert", tmp_path / "w.safetensors", tmp_path / "out", "--to=fcdp", f"--like={model}").code == 0
    values = [s for s in json.loads(ckpt("inspect", tmp_path / "out", "--json").out)["states"] if s["role"] == "value"]
    assert [s["updates"] for s in values] == [0, 0]
    assert ckpt("diff", tmp_path / "out", tmp_path / "w.safetensors").code == 0
    zeros = [Made(s.names, s.role, torch.zeros_like(s.tensor)) for s in states if s.role.startswith("exp_avg")]
    rest = [s for s in states if not s.role.startswith("exp_avg")]
    expected = write(tmp_path / "expected", [*rest, *zeros], world_size=2)
    done = ckpt("diff", tmp_path / "out", expected, "--json")
    # The job's own random state and computed buffer are not in the weights.
    assert json.loads(done.out)["different"] == []
    assert json.loads(done.out)["only_in_second"] == ["buffer/rotary", "random/torch#0", "random/torch#1"]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"head.weight": torch.zeros(6, 4)}, "expected embed.weight and head.weight to be equal"),
        ({"other": torch.zeros(1)}, "found value/other; name a checkpoint of the same model"),
        ({"base": torch.zeros(4)}, "expected value/base of F32 [3], as in"),
        ({"base": torch.zeros(3).half()}, "found F16 [3]; name a checkpoint"),
    ],
)
def test_states_that_do_not_fit_are_refused(tmp_path, ckpt, states, model, more, text):
    save_dcp(tmp_path / "dcp", states, more)
    done = ckpt("convert", tmp_path / "dcp", tmp_path / "out", "--to=fcdp", f"--like={model}")
    assert done.code == 2
    assert text in done.error
    assert not (tmp_path / "out").exists()


def test_a_missing_state_is_named(tmp_path, ckpt, states, model):
    save_dcp(tmp_path / "dcp", [s for s in states if s.names != ["norm.mean"]])
    done = ckpt("convert", tmp_path / "dcp", tmp_path / "out", "--to=fcdp", f"--like={model}")
    assert done.code == 2
    assert "expected a state buffer/norm.mean#0, as in" in done.error
