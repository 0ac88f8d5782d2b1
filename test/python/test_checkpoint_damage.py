# SPDX-License-Identifier: Apache-2.0
"""Damaged checkpoints: each is refused by one message that names the file, and nothing is written."""

import copy
import json
import os
import random
import shutil

import pytest
import torch
from fcdp.checkpoint.dcp_metadata import read_metadata
from fcdp.checkpoint.errors import CheckpointError
from made_checkpoints import Made, model_states, write
from safetensors.torch import save_file

NUMBERS = [-1, 0, 1, 3, 5, 6, 2**31, 2**63, 10**30, 1.5, float("nan")]
OTHERS = [None, True, "", "x", "F32", "../x", "\ud800", [], [1], {}, {"a": 1}]


@pytest.fixture
def source(tmp_path):
    return write(tmp_path / "step-00000007", model_states(2), world_size=2)


def change(folder, edit):
    index = json.loads((folder / "index.json").read_text())
    edit(index)
    (folder / "index.json").write_text(json.dumps(index))


def state(index, role, name):
    return next(state for state in index["states"] if state["role"] == role and name in state["names"])


def refuse(ckpt, tmp_path, folder, text):
    done = ckpt("convert", folder, tmp_path / "out", "--to=fcdp")
    assert done.code == 2, done.out
    assert done.error.startswith(f"fcdp-ckpt: error: {folder}") and text in done.error
    assert done.error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def cut_piece(index):
    state(index, "value", "embed.weight")["pieces"][0]["length"] -= 1


def grow_piece(index):
    state(index, "value", "embed.weight")["pieces"][0]["length"] += 1


def drop_rank(index):
    del state(index, "random", "torch")["pieces"][1]


def mix_ranks(index):
    del state(index, "random", "torch")["pieces"][1]["rank"]


def change_shape(index):
    state(index, "exp_avg", "fc.weight")["shape"] = [5, 7]


def repeat_state(index):
    index["states"].append(copy.deepcopy(state(index, "value", "fc.bias")))


def steal_name(index):
    state(index, "value", "fc.bias")["names"].append("head.weight")


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (cut_piece, "value/embed.weight: no piece for elements"),
        (grow_piece, "value/embed.weight: "),
        (drop_rank, "random/torch: no pieces of rank 1"),
        (mix_ranks, "random/torch: not all pieces belong to ranks, to nodes, or to neither"),
        (change_shape, "exp_avg/fc.weight: no piece for elements 30 to 35"),
        (repeat_state, "expected states[24].names to be a name that no other state has"),
        (steal_name, "to be a name that no other state has, found \"head.weight\""),
        (lambda index: index.update(format="x"), 'expected format to be "fcdp-checkpoint", found "x"'),
        (lambda index: index.update(version=3), "expected version to be 1 or 2 (newer versions need a newer fcdp-ckpt)"),
        (lambda index: index.update(version=2), "expected a text with its digest as its last member, found no digest"),
        (lambda index: index.update(digest="0" * 16), "expected digest to be nothing in version 1"),
        (lambda index: index.update(step=8), "expected step to be 7, as the folder's name says, found 8"),
        (lambda index: index.pop("states"), "expected states to be a list, found nothing"),
        (lambda index: index["states"][3].update(role="velocity"), "expected states[3].role to be one of value, master"),
        (lambda index: index["states"][3].update(dtype="F31"), "expected states[3].dtype to be a type of safetensors"),
        (lambda index: index["states"][3].update(dtype="F16"), "instead of F16 ["),
        (lambda index: index["files"][0].update(name="../a"), "expected files[0].name to be the name of a file"),
        (lambda index: index["files"][0].update(bytes=3), "bytes instead of 3"),
        (lambda index: index["files"].pop(), "file to be a number from 0 to 0, found 1"),
    ],
)  # fmt: skip
def test_an_index_that_is_wrong(tmp_path, ckpt, source, edit, text):
    change(source, edit)
    refuse(ckpt, tmp_path, source, text)


def test_a_file_cut_short(tmp_path, ckpt, source):
    file = source / "rank-00001-of-00002.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[:-2])
    refuse(ckpt, tmp_path, source, f"rank-00001-of-00002.safetensors: {len(data) - 2} bytes instead of {len(data)}")


def test_a_file_of_another_rank(tmp_path, ckpt, source):
    shutil.copy(source / "rank-00000-of-00002.safetensors", source / "rank-00001-of-00002.safetensors")
    size = (source / "rank-00001-of-00002.safetensors").stat().st_size
    change(source, lambda index: index["files"][1].update(bytes=size))
    refuse(ckpt, tmp_path, source, "rank-00001-of-00002.safetensors: there is no tensor '")


def test_a_missing_index(tmp_path, ckpt, source):
    (source / "index.json").unlink()
    done = ckpt("inspect", source)
    assert done.code == 2
    assert "expected one file *.safetensors, found 2" in done.error


def nodes(value, path=()):
    """All paths into a value of JSON."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from nodes(child, (*path, key))


def damage_value(index, rng):
    """Changes, removes or repeats one value; returns whether anything is different."""
    before = json.dumps(index)
    path = rng.choice([path for path in nodes(index) if path])
    parent = index
    for key in path[:-1]:
        parent = parent[key]
    kind = rng.randrange(4)
    if kind == 0:
        del parent[path[-1]]
    elif kind == 1 and isinstance(parent, list):
        parent.append(copy.deepcopy(parent[path[-1]]))
    else:
        parent[path[-1]] = copy.deepcopy(rng.choice(NUMBERS if kind == 2 else OTHERS))
    return json.dumps(index) != before


@pytest.mark.parametrize("seed", range(4))
def test_any_damage_of_the_index(tmp_path, ckpt, source, seed):
    rng = random.Random(seed)
    good = (source / "index.json").read_text()
    refused = 0
    for round_ in range(60):
        index = json.loads(good)
        if round_ % 3:
            if not damage_value(index, rng):
                continue
            text = json.dumps(index)
        else:
            data = bytearray(good.encode())
            for _ in range(rng.randint(1, 3)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            text = bytes(data[: rng.choice([len(data), rng.randrange(len(data))])]).decode("latin-1")
        (source / "index.json").write_text(text, encoding="latin-1")
        done = ckpt("inspect", source, "--json")
        if done.code == 0:
            # A value that no check can know to be wrong: the data is whole.
            assert json.loads(done.out)["problems"] == []
            continue
        refused += 1
        if done.code == 2:
            assert done.error.startswith(f"fcdp-ckpt: error: {source}/index.json: expected ") and done.error.count("\n") == 1
        else:
            assert json.loads(done.out)["problems"]
        assert ckpt("convert", source, tmp_path / "out", "--to=safetensors").code == 2
        assert not (tmp_path / "out").exists()
    assert refused > 35


@pytest.mark.parametrize("seed", range(3))
def test_any_damage_of_a_file_header(tmp_path, ckpt, source, seed):
    rng = random.Random(seed)
    file = source / "rank-00000-of-00002.safetensors"
    good = file.read_bytes()
    header = 8 + int.from_bytes(good[:8], "little")
    for _ in range(50):
        data = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(header)] = rng.randrange(256)
        file.write_bytes(bytes(data))
        done = ckpt("diff", source, source)
        # Spaces around the JSON, and the metadata, have no meaning.
        if done.code == 0:
            assert json.loads(data[8:header]) == json.loads(good[8:header])
            continue
        assert done.code == 2
        assert done.error.startswith(f"fcdp-ckpt: error: {source}: expected all pieces, found ")
        assert "rank-00000-of-00002.safetensors: " in done.error and done.error.count("\n") == 1


@pytest.mark.parametrize("seed", range(3))
def test_any_damage_of_a_distributed_checkpoint(tmp_path, ckpt, source, seed):
    rng = random.Random(seed)
    folder = tmp_path / "dcp"
    assert ckpt("convert", source, folder, "--to=dcp").code == 0
    good = {path.name: path.read_bytes() for path in folder.iterdir()}
    for _ in range(25):
        name = rng.choice(sorted(good))
        data = bytearray(good[name])
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        (folder / name).write_bytes(bytes(data))
        done = ckpt("diff", source, folder)
        (folder / name).write_bytes(good[name])
        assert done.code in (0, 1, 2)
        if done.code == 2:
            assert done.error.startswith(f"fcdp-ckpt: error: {folder}") and done.error.count("\n") == 1
    assert ckpt("diff", source, folder).code == 0


def damaged_hf(tmp_path, edit):
    folder = tmp_path / "hf"
    folder.mkdir()
    save_file({"a": torch.zeros(3)}, folder / "model-00001-of-00002.safetensors")
    save_file({"b": torch.zeros(3)}, folder / "model-00002-of-00002.safetensors")
    places = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    index = {"metadata": {"total_size": 24}, "weight_map": places}
    edit(folder, index)
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (lambda folder, index: index.pop("weight_map"), "expected weight_map to be an object, found nothing"),
        (lambda folder, index: index["weight_map"].update(a=3), "expected weight_map.a to be a text, found 3"),
        (lambda folder, index: index["weight_map"].update(a="../x"), "names of files in the same folder, found \"../x\""),
        (lambda folder, index: index["weight_map"].update(c="model-00001-of-00002.safetensors"), "no tensor 'c'"),
        (lambda folder, index: (folder / "model-00002-of-00002.safetensors").unlink(), "the file is missing"),
        (lambda folder, index: (folder / "model-00002-of-00002.safetensors").write_bytes(b"{}"), "expected a safetensors"),
    ],
)  # fmt: skip
def test_damaged_weights(tmp_path, ckpt, edit, text):
    refuse(ckpt, tmp_path, damaged_hf(tmp_path, edit), text)


def test_a_gap_and_an_overlap_between_ranks(tmp_path, ckpt):
    folder = write(tmp_path / "a", [Made(["x"], "value", torch.zeros(100))], world_size=8)
    pieces = json.loads((folder / "index.json").read_text())["states"][0]["pieces"]
    assert len(pieces) > 3
    for delta, text in ((1, "no piece for"), (-1, "two pieces for")):
        change(folder, lambda index: max(index["states"][0]["pieces"], key=lambda p: p["offset"]).update(offset=0))
        refuse(ckpt, tmp_path, folder, "value/x: two pieces for elements 0 to ")
        change(folder, lambda index: index["states"][0].update(pieces=pieces))
        change(folder, lambda index: [p.update(offset=p["offset"] + delta) for p in index["states"][0]["pieces"] if p["offset"]])
        refuse(ckpt, tmp_path, folder, f"value/x: {text}")
        change(folder, lambda index: index["states"][0].update(pieces=pieces))


@pytest.mark.parametrize(
    ("name", "text"),
    [("index.json", "expected"), ("rank-00000-of-00002.safetensors", "the file is missing")],
)
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
def test_a_file_that_is_none(ckpt, tmp_path, source, name, text, make):
    """A pipe is waited for, and a device has no end."""
    path = source / name
    path.unlink()
    make(path)
    refuse(ckpt, tmp_path, source, text)


def test_metadata_that_is_a_pipe(tmp_path):
    os.mkfifo(tmp_path / ".metadata")
    with pytest.raises(CheckpointError, match="expected a file, found a pipe, a device or a socket"):
        read_metadata(tmp_path)
