# SPDX-License-Identifier: Apache-2.0
"""fcdp-ckpt convert, to and from Hugging Face's weights."""

import json
import os
import signal

import pytest
import torch
from made_checkpoints import Made, model_states, parameter, weights, write
from safetensors.torch import load_file, load_model, save_file
from fcdp.checkpoint.cli import program
from fcdp.checkpoint.safetensors_files import tensors_of
from transformers import LlamaConfig, LlamaForCausalLM


@pytest.fixture
def states():
    return model_states(3)


@pytest.fixture
def source(tmp_path, states):
    return write(tmp_path / "run" / "step-00000007", states, world_size=3)


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name


def without_aliases(states):
    aliases = {name for state in states for name in state.names[1:]}
    return {name: tensor for name, tensor in weights(states).items() if name not in aliases}


def test_one_file_has_the_weights_of_rank_0(tmp_path, ckpt, states, source):
    out = tmp_path / "model.safetensors"
    done = ckpt("convert", source, out, "--to=safetensors")
    assert (done.code, done.error) == (0, "")
    assert "left out: exp_avg (5), exp_avg_sq (5), master (1), momentum_buffer (1), buffer (5), random (3)" in done.out
    assert_same(load_file(out), without_aliases(states))


def test_a_run_is_its_latest_checkpoint(tmp_path, ckpt, states, source):
    assert ckpt("convert", source.parent, tmp_path / "out", "--to=hf").code == 0
    assert_same(load_file(tmp_path / "out" / "model.safetensors"), without_aliases(states))


def test_shards_have_an_index(tmp_path, ckpt, states, source):
    out = tmp_path / "out"
    assert ckpt("convert", source, out, "--to=hf", "--shard-size=200").code == 0
    index = json.loads((out / "model.safetensors.index.json").read_text())
    shards = sorted(out.glob("*.safetensors"))
    assert len(shards) > 2
    assert [shard.name for shard in shards] == [
        f"model-{i + 1:05}-of-{len(shards):05}.safetensors" for i in range(len(shards))
    ]
    expected = without_aliases(states)
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in expected.values())
    found = {}
    for shard in shards:
        tensors = load_file(shard)
        assert len(tensors) == 1 or sum(tensor.nbytes for tensor in tensors.values()) <= 200
        assert all(index["weight_map"][name] == shard.name for name in tensors)
        found |= tensors
    assert_same(found, expected)
    assert ckpt("diff", source, out).code == 0


def test_a_shard_may_be_as_large_as_the_limit(tmp_path, ckpt, states, source):
    total = sum(tensor.nbytes for tensor in without_aliases(states).values())
    for size, shards in ((total, 1), (total - 1, 2)):
        out = tmp_path / str(size)
        assert ckpt("convert", source, out, "--to=hf", f"--shard-size={size}").code == 0
        assert len(list(out.glob("*.safetensors"))) == shards


@pytest.mark.parametrize("options", [["--to=safetensors"], ["--to=hf"], ["--to=hf", "--shard-size=100"]])
def test_back_and_forth_is_equal(tmp_path, ckpt, states, source, options):
    assert ckpt("convert", source, tmp_path / "there.safetensors", *options).code == 0
    back = tmp_path / "back" / "step-00000007"
    assert ckpt("convert", tmp_path / "there.safetensors", back, "--to=fcdp").code == 0
    done = ckpt("diff", source, tmp_path / "there.safetensors")
    assert done.code == 0, done.out
    done = ckpt("diff", back, tmp_path / "there.safetensors")
    assert done.code == 0, done.out
    found = {tuple(state["names"]): state for state in json.loads(ckpt("inspect", back, "--json").out)["states"]}
    assert found["embed.weight", "head.weight"]["trainable"] is True
    assert found["adapter.base",]["trainable"] is False
    assert found["mask",]["role"] == "buffer" and found["mask",]["persistent"] is True


def test_a_checkpoint_of_several_ranks_becomes_one_of_whole_states(tmp_path, ckpt, states, source):
    out = tmp_path / "out"
    assert ckpt("convert", source, out, "--to=fcdp").code == 0
    assert ckpt("diff", source, out).out.startswith("equal: ")
    index = json.loads((out / "index.json").read_text())
    assert (index["world_size"], index["job"]) == (3, {"seed": 5, "micro_batches": 2})
    assert load_file(out / "rank-00002-of-00003.safetensors").keys() == {
        "buffer/norm.running_mean@0#2",
        "buffer/norm.num_batches@0#2",
        "random/torch@0#2",
    }


def test_only_what_was_trained(tmp_path, ckpt, states, source):
    out = tmp_path / "out.safetensors"
    assert ckpt("convert", source, out, "--to=safetensors", "--only-trained").code == 0
    trained = {state.names[0] for state in states if state.settings.get("trainable")}
    assert load_file(out).keys() == trained


def test_trained_states_must_be_known(tmp_path, ckpt):
    save_file({"x": torch.zeros(2)}, tmp_path / "x.safetensors")
    done = ckpt("convert", tmp_path / "x.safetensors", tmp_path / "out", "--to=fcdp", "--only-trained")
    assert done.code == 2
    assert "expected states that are known to be trained" in done.error


def test_without_the_optimizer(tmp_path, ckpt, source):
    assert ckpt("convert", source, tmp_path / "out", "--to=fcdp", "--without-optimizer").code == 0
    found = json.loads(ckpt("inspect", tmp_path / "out", "--json").out)
    assert {state["role"] for state in found["states"]} == {"value", "buffer", "random"}


def test_prefixes_of_names(tmp_path, ckpt, source, states):
    out = tmp_path / "out.safetensors"
    assert ckpt("convert", source, out, "--to=safetensors", "--strip-prefix=norm.", "--add-prefix=model.").code == 0
    expected = {f"model.{name.removeprefix('norm.')}" for name in without_aliases(states)}
    assert load_file(out).keys() == expected
    done = ckpt("convert", source, tmp_path / "b", "--to=hf", "--strip-prefix=nothing.such")
    assert done.code == 2
    assert "expected names that begin with 'nothing.such'" in done.error


def test_names_stay_different(tmp_path, ckpt):
    source = write(tmp_path / "c", [*parameter(["a.x"], torch.ones(2)), *parameter(["x"], torch.zeros(2))])
    done = ckpt("convert", source, tmp_path / "out", "--to=fcdp", "--strip-prefix=a.")
    assert done.code == 2
    assert "expected one state of each name, found 2 states value/x" in done.error
    source = write(tmp_path / "d", [*parameter(["optim.state.x.exp_avg"], torch.ones(2)), *parameter(["x"], torch.ones(2))])
    done = ckpt("convert", source, tmp_path / "out", "--to=dcp", "--model-prefix=")
    assert done.code == 2
    assert "found states that PyTorch would give one name; choose other prefixes" in done.error


@pytest.mark.parametrize("shape", [(), (7,), (1, 9), (3, 4), (2, 1, 5), (2, 3, 4, 2), (1, 1, 1)])
def test_every_range_of_a_tensor_is_read(tmp_path, shape):
    tensor = torch.randn(shape)
    save_file({"x": tensor}, tmp_path / "x.safetensors")
    stored = tensors_of(tmp_path / "x.safetensors")["x"]
    flat = tensor.reshape(-1)
    for begin in range(flat.numel()):
        for end in range(begin + 1, flat.numel() + 1):
            assert torch.equal(stored.read(begin, end - begin), flat[begin:end])


def test_what_is_not_known_is_not_claimed(tmp_path, ckpt):
    """A tensor "pt" is not tied to the metadata's "format", and shards of others say nothing about training."""
    save_file({"pt": torch.zeros(2), "x": torch.ones(2)}, tmp_path / "x.safetensors", metadata={"format": "pt"})
    assert ckpt("convert", tmp_path / "x.safetensors", tmp_path / "out", "--to=hf", "--shard-size=8").code == 0
    for path in (tmp_path / "x.safetensors", tmp_path / "out"):
        states = json.loads(ckpt("inspect", path, "--json").out)["states"]
        assert [state["names"] for state in states] == [["pt"], ["x"]]
        assert not any("trainable" in state for state in states)


def test_the_file_loads_into_a_tied_model(tmp_path, ckpt):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(9, 4)
            self.head = torch.nn.Linear(4, 9, bias=False)
            self.head.weight = self.embed.weight

    weight = torch.randn(9, 4)
    source = write(tmp_path / "c", parameter(["embed.weight", "head.weight"], weight), world_size=2)
    assert ckpt("convert", source, tmp_path / "m.safetensors", "--to=safetensors").code == 0
    model = Tied()
    load_model(model, tmp_path / "m.safetensors")
    assert torch.equal(model.head.weight, weight)


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("options", [[], ["--shard-size=20KB"]], ids=["one", "shards"])
def test_transformers_loads_the_folder(tmp_path, ckpt, tied, options):
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=tied,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    states = []
    for name, value in model.named_parameters():
        names = [name, "lm_head.weight"] if tied and name == "model.embed_tokens.weight" else [name]
        states += parameter(names, value.detach())
    for name, value in model.named_buffers():
        states.append(Made([name], "buffer", value, settings={"persistent": False}))
    source = write(tmp_path / "step-00000007", states, world_size=2)
    config.save_pretrained(tmp_path / "config")

    out = tmp_path / "out"
    assert ckpt("convert", source, out, "--to=hf", f"--config={tmp_path / 'config' / 'config.json'}", *options).code == 0
    loaded, report = LlamaForCausalLM.from_pretrained(out, output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    ids = torch.randint(64, (2, 9))
    with torch.no_grad():
        assert torch.equal(loaded.eval()(ids).logits, model(ids).logits)

    loaded.save_pretrained(tmp_path / "again", max_shard_size="20KB")
    done = ckpt("diff", source, tmp_path / "again")
    assert done.code == 0, done.out
    assert ckpt("convert", tmp_path / "again", tmp_path / "back", "--to=fcdp", "--step=3").code == 0
    assert ckpt("diff", source, tmp_path / "back").code == 1  # No optimizer states.
    assert json.loads((tmp_path / "back" / "index.json").read_text())["step"] == 3


def test_the_name_of_a_checkpoint_says_its_step(tmp_path, ckpt, source):
    done = ckpt("convert", source, tmp_path / "step-00000008", "--to=fcdp")
    assert done.code == 2
    assert "expected a state after 8 steps, by its name, found a state after 7 steps; give --step" in done.error
    assert ckpt("convert", source, tmp_path / "step-00000008", "--to=fcdp", "--step=8").code == 0


def test_nothing_is_overwritten(tmp_path, ckpt, source):
    out = tmp_path / "out.safetensors"
    out.write_text("mine")
    for to in ("safetensors", "hf", "dcp", "fcdp"):
        done = ckpt("convert", source, out, f"--to={to}")
        assert done.code == 2
        assert f"{out}: expected a path that does not exist, found a file" in done.error
    done = ckpt("convert", source, out / "deep" / "er", "--to=hf")
    assert done.code == 2
    assert f"{out / 'deep'}: expected a folder, found a file in its place" in done.error
    assert out.read_text() == "mine"


@pytest.mark.parametrize("to", ["safetensors", "hf", "dcp", "fcdp"])
def test_a_failure_leaves_nothing(tmp_path, ckpt, source, monkeypatch, to):
    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    done = ckpt("convert", source, tmp_path / "new" / "out", f"--to={to}")
    assert done.code == 2
    assert "No space left on device" in done.error
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("to", ["safetensors", "dcp", "fcdp"])
def test_a_full_disk_leaves_nothing(tmp_path, ckpt, source, monkeypatch, to):
    def fail(self, offset, length):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fcdp.checkpoint.safetensors_files.StoredTensor.read", fail)
    done = ckpt("convert", source, tmp_path / "new" / "out", f"--to={to}")
    assert done.code == 2
    assert done.error.endswith("No space left on device\n") and done.error.count("\n") == 1
    assert list((tmp_path / "new").iterdir()) == []


def test_a_signal_leaves_nothing(tmp_path, source, monkeypatch):
    monkeypatch.setattr("fcdp.checkpoint.sharded._Pieces.read", lambda *range_: os.kill(os.getpid(), signal.SIGTERM))
    monkeypatch.setattr("sys.argv", ["fcdp-ckpt", "convert", str(source), str(tmp_path / "new" / "out"), "--to=hf"])
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGPIPE)}
    with pytest.raises(SystemExit, match="143"):
        program()
    for number, handler in before.items():
        signal.signal(number, handler)
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--to=dcp", "--shard-size=5GB"], "--shard-size needs --to=hf"),
        (["--to=dcp", "--config=c.json"], "--config needs --to=hf"),
        (["--to=hf", "--optimizer=adamw"], "--optimizer needs --to=dcp"),
        (["--to=hf", "--step=1"], "--step needs --to=fcdp"),
        (["--to=hf", "--without-optimizer"], "--to=hf never has optimizer states"),
        (["--to=hf", "--model-prefix=x"], "are for DCP folders"),
        (["--to=hf", "--shard-size=many"], "expected a size such as 500MB or 5GB, got 'many'"),
        (["--to=hf", "--shard-size=0"], "expected a size such as 500MB or 5GB, got '0'"),
        (["--to=hf", "--shard-size=1..5GB"], "expected a size such as 500MB or 5GB"),
        (["--to=dcp", "--optimizer=adamw,speed=1"], "'adamw' has no setting ['speed']"),
        (["--to=dcp", "--optimizer=adamw,lr=-1"], "Invalid learning rate"),
        (["--to=fcdp", "--step=-1"], "expected a number of at least 0"),
        (["--to=hf", "--config=none.json"], "none.json: No such file"),
    ],
)
def test_options_are_checked(tmp_path, ckpt, source, arguments, text):
    done = ckpt("convert", source, tmp_path / "out", *arguments)
    assert done.code == 2
    assert text in done.error
    assert not (tmp_path / "out").exists()


def test_a_config_that_is_none_is_refused(tmp_path, ckpt, source):
    (tmp_path / "config.json").write_text("[]")
    done = ckpt("convert", source, tmp_path / "out", "--to=hf", f"--config={tmp_path / 'config.json'}")
    assert done.code == 2
    assert "expected the file to be an object, found []" in done.error


def test_no_output_is_made_in_what_is_read(tmp_path, ckpt):
    source = write(tmp_path / "run" / "step-00000007", model_states(1))
    assert ckpt("convert", source, tmp_path / "hf", "--to=hf").code == 0
    (tmp_path / "link").symlink_to("hf")
    for read, out, form in (
        (source, source / "weights.safetensors", "safetensors"),
        (tmp_path / "hf", tmp_path / "hf" / "more.safetensors", "safetensors"),
        (tmp_path / "hf", tmp_path / "link" / "a" / "step-00000007", "fcdp"),
    ):
        done = ckpt("convert", read, out, f"--to={form}")
        assert done.code == 2 and "which is read" in done.error, done
        assert not out.exists()
    # Another checkpoint may be made in the folder of a run.
    assert ckpt("convert", tmp_path / "run", tmp_path / "run" / "step-00000009", "--to=fcdp", "--step=9").code == 0
