# SPDX-License-Identifier: Apache-2.0
"""fcdp-ckpt and states that each node has for itself."""

import json

import pytest
import torch
from made_checkpoints import model_states, outer_states, residuals, write
from safetensors.torch import load_file


@pytest.fixture
def states():
    return [*model_states(4), *residuals(2)]


@pytest.fixture
def source(tmp_path, states):
    return write(tmp_path / "step-00000007", states, world_size=4, nodes=2)


def test_all_are_listed(ckpt, states, source):
    found = json.loads(ckpt("inspect", source, "--json").out)
    own = [state for state in found["states"] if state["role"] == "residual"]
    assert [state["node"] for state in own] == [0, 1]
    assert "residual/fc.weight#node1" in ckpt("inspect", source, "--states").out


@pytest.mark.parametrize("format", ["fcdp", "dcp"])
def test_copies_are_equal(tmp_path, ckpt, source, format):
    assert ckpt("convert", source, tmp_path / "out", f"--to={format}").code == 0
    done = ckpt("diff", source, tmp_path / "out")
    assert done.code == 0
    assert "not compared" not in done.out
    assert ckpt("convert", tmp_path / "out", tmp_path / "back", "--to=fcdp").code == 0
    index = json.loads((tmp_path / "back" / "index.json").read_text())
    pieces = next(state["pieces"] for state in index["states"] if state["role"] == "residual")
    # The file of the first rank of each node has them.
    assert [(piece["node"], piece["file"]) for piece in pieces] == [(0, 0), (1, 2)]


def test_a_change_on_one_node_is_found(tmp_path, ckpt, states, source):
    states[-1].tensors[1][2, 3] += 1
    other = write(tmp_path / "other", states, world_size=4, nodes=2)
    done = ckpt("diff", source, other)
    assert done.code == 1
    assert "residual/fc.weight#node1" in done.out
    assert "residual/fc.weight#node0" not in done.out


def test_only_states_of_both_are_compared(tmp_path, ckpt, states, source):
    states[-1].tensors.append(torch.ones(5, 6))
    states[-1].tensors.append(torch.ones(5, 6))
    other = write(tmp_path / "other", states, world_size=4, nodes=4)
    done = ckpt("diff", source, other)
    assert done.code == 0
    assert "residual/fc.weight#node2, residual/fc.weight#node3" in done.out


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (lambda pieces: pieces.pop(), "residual/fc.weight: no pieces of node 1"),
        (lambda pieces: pieces[0].pop("node"), "residual/fc.weight: not all pieces belong to ranks, to nodes, or to"),
        (lambda pieces: pieces[0].update(rank=0), "residual/fc.weight: not all pieces belong to ranks, to nodes, or to"),
        (lambda pieces: pieces[0].update(length=29), "residual/fc.weight: no piece for elements 29 to 30 of node 0"),
        (lambda pieces: pieces[0].update(node=2), "pieces[0].node to be a number from 0 to 1"),
    ],
)
def test_damage_is_named(tmp_path, ckpt, source, edit, text):
    index = json.loads((source / "index.json").read_text())
    edit(next(state["pieces"] for state in index["states"] if state["role"] == "residual"))
    (source / "index.json").write_text(json.dumps(index))
    done = ckpt("convert", source, tmp_path / "out", "--to=fcdp")
    assert done.code == 2
    assert text in done.error


def test_optimizer_states_can_be_left_out(tmp_path, ckpt, source):
    assert ckpt("convert", source, tmp_path / "out", "--to=fcdp", "--without-optimizer").code == 0
    assert "residual" not in ckpt("inspect", tmp_path / "out", "--states").out


def test_weights_are_those_that_nodes_have_in_common(tmp_path, ckpt):
    states = [*model_states(4), *outer_states(2)]
    source = write(tmp_path / "step-00000007", states, world_size=4, nodes=2)
    assert ckpt("inspect", source).code == 0
    assert ckpt("convert", source, tmp_path / "out.safetensors", "--to=safetensors").code == 0
    outer = next(state.tensor for state in states if state.role == "outer")
    assert torch.equal(load_file(tmp_path / "out.safetensors")["own.weight"], outer.bfloat16())
