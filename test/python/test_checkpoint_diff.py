# SPDX-License-Identifier: Apache-2.0
"""fcdp-ckpt diff."""

import json
import math

import pytest
import torch
from made_checkpoints import Made, model_states, weights, write
from safetensors.torch import save_file


@pytest.fixture
def states():
    return model_states(4)


def test_equal_whatever_the_layout(tmp_path, ckpt, states):
    first = write(tmp_path / "a", states, world_size=4, seed=1)
    second = write(tmp_path / "b", states, world_size=4, seed=2)
    done = ckpt("diff", first, second)
    assert (done.code, done.error) == (0, "")
    assert done.out.startswith("equal: ")


def of_ranks(states, world_size):
    return [Made(s.names, s.role, s.tensor, s.tensors and s.tensors[:world_size], s.settings) for s in states]


def test_equal_over_numbers_of_ranks(tmp_path, ckpt, states):
    first = write(tmp_path / "a", states, world_size=4)
    second = write(tmp_path / "b", of_ranks(states, 2), world_size=2)
    done = ckpt("diff", first, second)
    assert done.code == 0
    assert "not compared, because only one has a place for them: buffer/norm.running_mean#2" in done.out


def test_every_single_change_is_found(tmp_path, ckpt, states):
    first = write(tmp_path / "a", states, world_size=4)
    for number, state in enumerate(states):
        if not state.like.numel():
            continue
        tensor = (state.tensors or [state.tensor])[-1].view(torch.uint8) if state.like.dim() else None
        if tensor is None:
            continue
        tensor.view(-1)[-1] ^= 1
        second = write(tmp_path / f"b{number}", states, world_size=4)
        tensor.view(-1)[-1] ^= 1
        done = ckpt("diff", first, second)
        assert done.code == 1, state
        assert f"{state.role}/{state.names[0]}" in done.out


def test_differences_are_measured(tmp_path, ckpt):
    a = torch.tensor([1.0, -2.0, 0.0, math.nan, math.inf, 8.0])
    b = torch.tensor([1.0, -2.5, 0.0, math.nan, math.inf, 8.25])
    first, second = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    save_file({"x": a}, first)
    save_file({"x": b}, second)
    done = json.loads(ckpt("diff", first, second, "--json").out)
    [difference] = done["different"]
    assert difference["different"] == 2
    assert difference["absolute"] == 0.5
    assert difference["relative"] == pytest.approx(0.2)
    assert ckpt("diff", first, second, "--tolerance=0.19").code == 1
    assert ckpt("diff", first, second, "--tolerance=0.21").code == 0


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_no_tolerance_takes_a_number_for_none(tmp_path, ckpt, value):
    first, second = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    save_file({"x": torch.tensor([1.0])}, first)
    save_file({"x": torch.tensor([value])}, second)
    assert ckpt("diff", first, second, "--tolerance=10").code == 1
    assert json.loads(ckpt("diff", first, second, "--json").out)["different"][0]["absolute"] == "inf"


def test_types_differ_unless_there_is_a_tolerance(tmp_path, ckpt):
    first, second = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    save_file({"x": torch.ones(3)}, first)
    save_file({"x": torch.ones(3).bfloat16()}, second)
    done = ckpt("diff", first, second)
    assert done.code == 1
    assert "F32, BF16" in done.out
    assert ckpt("diff", first, second, "--tolerance=0").code == 0


def test_shapes_that_differ_are_shown(tmp_path, ckpt):
    first, second = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    save_file({"x": torch.ones(2, 3)}, first)
    save_file({"x": torch.ones(3, 2)}, second)
    done = ckpt("diff", first, second, "--tolerance=1")
    assert done.code == 1
    assert "[2, 3], [3, 2]" in done.out


def test_names_in_one_only(tmp_path, ckpt):
    first, second = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    save_file({"x": torch.ones(2), "y": torch.ones(2)}, first)
    save_file({"x": torch.ones(2), "z": torch.ones(2)}, second)
    done = ckpt("diff", first, second)
    assert done.code == 1
    assert "only in the first: value/y" in done.out and "only in the second: value/z" in done.out


def test_weights_of_another_format(tmp_path, ckpt, states):
    first, second = write(tmp_path / "a", states, world_size=4), tmp_path / "b.safetensors"
    tensors = {name: tensor.clone() for name, tensor in weights(states).items()}
    save_file(tensors, second)  # The tied parameter under both names.
    done = ckpt("diff", first, second)
    assert done.code == 0, done.out
    assert "not compared" in done.out
    tensors["head.weight"][0, 0] += 1
    save_file(tensors, second)
    done = ckpt("diff", first, second)
    assert done.code == 1
    assert "value/embed.weight" in done.out


def test_many_chunks(tmp_path, ckpt, monkeypatch):
    monkeypatch.setattr("fcdp.checkpoint.compare._STEP", 7)
    state = [Made(["x"], "value", torch.randn(10, 10), settings={"updates": 0, "trainable": True})]
    first = write(tmp_path / "a", state, world_size=3)
    second = write(tmp_path / "b", state, world_size=2)
    assert ckpt("diff", first, second).code == 0
    state[0].tensor[9, 9] += 1
    third = write(tmp_path / "c", state, world_size=2)
    assert json.loads(ckpt("diff", first, third, "--json").out)["different"][0]["different"] == 1
    # In several chunks.
    state[0].tensor[0, :2] += 1
    fourth = write(tmp_path / "d", state, world_size=2)
    assert json.loads(ckpt("diff", first, fourth, "--json").out)["different"][0]["different"] == 3


def test_an_incomplete_checkpoint_is_an_error(tmp_path, ckpt, states):
    first, second = write(tmp_path / "a", states, world_size=4), write(tmp_path / "b", states, world_size=4)
    (second / "rank-00003-of-00004.safetensors").unlink()
    done = ckpt("diff", first, second)
    assert done.code == 2
    assert "rank-00003-of-00004.safetensors: the file is missing" in done.error
