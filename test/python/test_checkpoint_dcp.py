# SPDX-License-Identifier: Apache-2.0
"""fcdp-ckpt with PyTorch's distributed checkpoints."""

import json
import pickle
import warnings

import pytest
import torch
import torch.distributed.checkpoint as dcp
from fcdp.optimizers import Lion
from made_checkpoints import Made, model_states, write
from safetensors.torch import load_file
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

pytestmark = pytest.mark.filterwarnings("ignore")


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(13, 6)
        self.fc = torch.nn.Linear(6, 6)
        self.norm = torch.nn.BatchNorm1d(6)
        self.head = torch.nn.Linear(6, 13, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.norm(self.fc(self.embed(ids))))


def trained(optimizer_class=torch.optim.AdamW, steps=3, **settings):
    model = Model()
    optimizer = optimizer_class(model.parameters(), **settings)
    for _ in range(steps):
        model(torch.randint(13, (8,))).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def as_states(model, optimizer):
    """The state of a job that trained this model."""
    states, done = [], {}
    for name, value in model.named_parameters(remove_duplicate=False):
        if value in done:
            done[value].append(name)
            continue
        names = done[value] = [name]
        own = optimizer.state[value]
        updates = int(own.get("step", 3))
        states.append(Made(names, "value", value.detach(), settings={"updates": updates, "trainable": True}))
        states += [Made(names, role, tensor) for role, tensor in own.items() if role != "step"]
    for name, value in model.named_buffers():
        states.append(Made([name], "buffer", value, settings={"persistent": True}))
    return states


def load(folder, model, optimizer, **options):
    """Loads a checkpoint as a PyTorch script does."""
    settings = StateDictOptions(**options)
    state = {
        "model": get_model_state_dict(model, options=settings),
        "optim": get_optimizer_state_dict(model, optimizer, options=settings),
    }
    dcp.load(state, checkpoint_id=folder, no_dist=True)
    set_model_state_dict(model, state["model"], options=settings)
    set_optimizer_state_dict(model, optimizer, state["optim"], options=settings)


def assert_same_training(first, second):
    for (name, one), other in zip(first[0].state_dict().items(), second[0].state_dict().values()):
        assert torch.equal(one, other), name
    one, other = first[1].state_dict(), second[1].state_dict()
    assert one["param_groups"] == other["param_groups"]
    assert one["state"].keys() == other["state"].keys()
    for number, values in one["state"].items():
        for name, value in values.items():
            assert torch.equal(value, other["state"][number][name]), name


@pytest.mark.parametrize("flat", [False, True], ids=["nested", "flat"])
@pytest.mark.parametrize(
    ("optimizer_class", "text", "settings"),
    [
        (torch.optim.AdamW, "adamw,lr=0.05,beta2=0.9", {"lr": 0.05, "betas": (0.9, 0.9)}),
        (torch.optim.SGD, "sgd,lr=0.1,momentum=0.9", {"lr": 0.1, "momentum": 0.9}),
        (Lion, "lion,lr=0.05,beta2=0.9", {"lr": 0.05, "betas": (0.9, 0.9)}),
        (torch.optim.Adafactor, "adafactor,lr=0.05,d=2", {"lr": 0.05, "d": 2.0}),
    ],
    ids=["adamw", "sgd", "lion", "adafactor"],
)
def test_a_script_continues(tmp_path, ckpt, flat, optimizer_class, text, settings):
    job = trained(optimizer_class, **settings)
    source = write(tmp_path / "step-00000003", as_states(*job), world_size=3, step=3)
    assert ckpt("convert", source, tmp_path / "dcp", "--to=dcp", f"--optimizer={text}").code == 0
    script = trained(optimizer_class, steps=1, **{**settings, "lr": 0.9})
    load(tmp_path / "dcp", *script, flatten_optimizer_state_dict=flat)
    assert_same_training(job, script)


def test_without_settings_the_script_keeps_its_own(tmp_path, ckpt):
    model, optimizer = trained()
    source = write(tmp_path / "step-00000003", as_states(model, optimizer), step=3)
    assert ckpt("convert", source, tmp_path / "dcp", "--to=dcp").code == 0
    script = trained(steps=1, lr=0.5)
    state = {"optim": get_optimizer_state_dict(*script)}
    with pytest.raises(dcp.CheckpointException):
        dcp.load(state, checkpoint_id=tmp_path / "dcp", no_dist=True)
    planner = dcp.DefaultLoadPlanner(allow_partial_load=True)
    dcp.load(state, checkpoint_id=tmp_path / "dcp", planner=planner, no_dist=True)
    assert torch.equal(state["optim"]["state"]["fc.weight"]["exp_avg"], optimizer.state[model.fc.weight]["exp_avg"])
    assert state["optim"]["state"]["fc.weight"]["step"] == 3
    assert state["optim"]["param_groups"][0]["lr"] == 0.5


@pytest.mark.parametrize("prefixes", [[], ["--model-prefix=app.net", "--optimizer-prefix=app.opt"], ["--model-prefix="]])
def test_back_and_forth_is_equal(tmp_path, ckpt, prefixes):
    source = write(tmp_path / "a", model_states(3), world_size=3)
    assert ckpt("convert", source, tmp_path / "dcp", "--to=dcp", *prefixes).code == 0
    assert ckpt("convert", tmp_path / "dcp", tmp_path / "b", "--to=fcdp").code == 0
    for other in ("dcp", "b"):
        done = ckpt("diff", source, tmp_path / other)
        assert done.code == 0 and "not compared" not in done.out, done.out
    found, expected = (json.loads(ckpt("inspect", path, "--json").out) for path in (tmp_path / "b", source))
    for key in ("step", "world_size", "nodes", "plan_hash", "job", "states", "roles"):
        assert found[key] == expected[key], key


def test_large_states_are_stored_in_parts(tmp_path, ckpt, monkeypatch):
    monkeypatch.setattr("fcdp.checkpoint.dcp_writer._PIECE_BYTES", 64)
    monkeypatch.setattr("fcdp.checkpoint.dcp_writer._FILE_BYTES", 256)
    states = model_states(2)
    source = write(tmp_path / "a", states, world_size=2)
    assert ckpt("convert", source, tmp_path / "dcp", "--to=dcp").code == 0
    assert len(list((tmp_path / "dcp").glob("*.distcp"))) > 4
    assert ckpt("diff", source, tmp_path / "dcp").code == 0
    loaded = {"model": {"embed.weight": torch.zeros(11, 6), "scale": torch.zeros(()), "adapter.base": torch.zeros(3, 2, 4)}}
    dcp.load(loaded, checkpoint_id=tmp_path / "dcp", no_dist=True)
    for state in states:
        if state.role == "value" and state.names[0] in loaded["model"]:
            assert torch.equal(loaded["model"][state.names[0]], state.tensor)


@pytest.mark.parametrize("key", ["model", "app.model", ""])
def test_what_a_script_saved_is_read(tmp_path, ckpt, key):
    model, optimizer = trained()
    weights, moments = get_model_state_dict(model), get_optimizer_state_dict(model, optimizer)
    state = {"": {**weights, "optim": moments}, "model": {"model": weights, "optim": moments, "epoch": 4}}
    state["app.model"] = {"app": {"model": weights, "optim": moments}}
    dcp.save(state[key], checkpoint_id=tmp_path / "dcp", no_dist=True)
    prefixes = ["--model-prefix=app.model", "--optimizer-prefix=app.optim"] if "app" in key else []
    assert ckpt("convert", tmp_path / "dcp", tmp_path / "out", "--to=fcdp", *prefixes).code == 0
    found = json.loads(ckpt("inspect", tmp_path / "out", "--json").out)
    assert found["step"] == 3
    by_name = {(state["role"], state["names"][0]): state for state in found["states"]}
    assert by_name["value", "fc.weight"]["updates"] == 3 and by_name["value", "fc.weight"]["trainable"] is True
    assert ("exp_avg_sq", "embed.weight") in by_name
    # The script does not say which names are tied: each is a state.
    source = write(tmp_path / "job", as_states(model, optimizer), world_size=2, step=3)
    done = ckpt("diff", source, tmp_path / "dcp", *prefixes)
    assert done.code == 0, done.out
    assert ckpt("convert", tmp_path / "dcp", tmp_path / "w.safetensors", "--to=safetensors", *prefixes).code == 0
    assert load_file(tmp_path / "w.safetensors").keys() == model.state_dict().keys()


def test_shards_of_several_ranks_are_put_together(tmp_path, ckpt):
    """Writes what ranks with shards along either dimension write."""
    whole = torch.randn(8, 6)

    class Planner(dcp.DefaultSavePlanner):
        def create_local_plan(self):
            plan = super().create_local_plan()
            [item] = plan.items
            parts = []
            for begin in ((0, 0), (0, 4), (4, 0), (4, 4)):
                sizes = torch.Size((4, 4 if begin[1] == 0 else 2))
                data = pickle.loads(pickle.dumps(item.tensor_data))
                object.__setattr__(data, "chunk", ChunkStorageMetadata(torch.Size(begin), sizes))
                index = type(item.index)(item.index.fqn, begin)
                parts.append(type(item)(index, dcp.planner.WriteItemType.SHARD, tensor_data=data))
            return dcp.SavePlan(parts, planner_data=plan.planner_data)

        def resolve_data(self, item):
            (row, column), (rows, columns) = item.tensor_data.chunk.offsets, item.tensor_data.chunk.sizes
            return whole[row : row + rows, column : column + columns].contiguous()

    dcp.save({"model": {"w": whole}}, checkpoint_id=tmp_path / "dcp", planner=Planner(), no_dist=True)
    assert ckpt("convert", tmp_path / "dcp", tmp_path / "w.safetensors", "--to=safetensors").code == 0
    assert torch.equal(load_file(tmp_path / "w.safetensors")["w"], whole)


def test_a_prefix_that_no_name_has_is_an_error(tmp_path, ckpt):
    dcp.save({"net": {"w": torch.zeros(2)}}, checkpoint_id=tmp_path / "dcp", no_dist=True)
    done = ckpt("inspect", tmp_path / "dcp", "--model-prefix=model")
    assert done.code == 2
    assert "expected tensors whose names begin with 'model.', found 'net.w'; give --model-prefix" in done.error
    assert "value/w" in ckpt("inspect", tmp_path / "dcp", "--model-prefix=net", "--states").out


class Evil:
    def __reduce__(self):
        return (open, ("evil", "w"))


def test_metadata_cannot_run_code(tmp_path, ckpt, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dcp").mkdir()
    (tmp_path / "dcp" / ".metadata").write_bytes(pickle.dumps(Evil()))
    done = ckpt("inspect", tmp_path / "dcp")
    assert done.code == 2
    assert "which is no part of a checkpoint's metadata" in done.error
    assert not (tmp_path / "evil").exists()


def test_objects_cannot_run_code(tmp_path, ckpt, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dcp.save({"model": {"w": torch.zeros(2)}, "more": Evil()}, checkpoint_id=tmp_path / "dcp", no_dist=True)
    done = ckpt("convert", tmp_path / "dcp", tmp_path / "w.safetensors", "--to=safetensors")
    assert done.code == 0
    assert "1 entries that are no state, such as 'more'" in done.out
    assert not (tmp_path / "evil").exists()


def test_missing_and_short_files_are_named(tmp_path, ckpt):
    source = write(tmp_path / "a", model_states(1))
    assert ckpt("convert", source, tmp_path / "dcp", "--to=dcp").code == 0
    file = tmp_path / "dcp" / "__0_0.distcp"
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    done = ckpt("convert", tmp_path / "dcp", tmp_path / "out", "--to=hf")
    assert done.code == 2
    assert f"__0_0.distcp: {len(data) - 1} bytes instead of at least {len(data)}" in done.error
    file.unlink()
    done = ckpt("inspect", tmp_path / "dcp")
    assert done.code == 1
    assert "missing: __0_0.distcp: the file is missing" in done.out


def test_a_gap_and_an_overlap_are_found(tmp_path, ckpt):
    dcp.save({"model": {"w": torch.zeros(4, 2)}}, checkpoint_id=tmp_path / "dcp", no_dist=True)
    path = tmp_path / "dcp" / ".metadata"
    metadata = pickle.loads(path.read_bytes())
    tensor = metadata.state_dict_metadata["model.w"]
    for size, problem in (((5, 2), "pieces for 8 of 10 elements"), ((3, 2), "a piece of shape [4, 2] at [0, 0]")):
        tensor.size = torch.Size(size)
        path.write_bytes(pickle.dumps(metadata))
        done = ckpt("convert", tmp_path / "dcp", tmp_path / "out", "--to=hf")
        assert done.code == 2
        assert f"model.w: {problem}" in done.error


def test_no_warning_of_torch_is_printed(tmp_path, ckpt):
    source = write(tmp_path / "a", model_states(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ckpt("convert", source, tmp_path / "dcp", "--to=dcp").code == 0
        assert ckpt("diff", source, tmp_path / "dcp").code == 0
