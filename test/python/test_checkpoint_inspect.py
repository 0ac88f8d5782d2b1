# SPDX-License-Identifier: Apache-2.0
"""fcdp-ckpt inspect."""

import json

import pytest
import torch
from made_checkpoints import model_states, write
from safetensors.torch import save_file, save_model

from fcdp.checkpoint.cli import main


def test_a_checkpoint_has_its_states_and_settings(tmp_path, ckpt):
    folder = write(tmp_path / "step-00000007", model_states(3), world_size=3)
    done = ckpt("inspect", folder, "--states")
    assert done.code == 0
    assert "saved by 3 ranks on 1 nodes, plan 0123abcd" in done.out
    assert "job: seed=5, micro_batches=2" in done.out
    assert "tied: embed.weight = head.weight" in done.out
    assert "value/fc.weight" in done.out and "BF16" in done.out
    assert "missing" not in done.out


def test_json_has_every_state_and_its_bytes(tmp_path, ckpt):
    states = model_states(2)
    folder = write(tmp_path / "step-00000007", states, world_size=2)
    found = json.loads(ckpt("inspect", folder, "--json").out)
    assert (found["format"], found["step"], found["world_size"], found["problems"]) == ("fcdp", 7, 2, [])
    expected = sum(tensor.nbytes for state in states for tensor in (state.tensors or [state.tensor]))
    assert sum(state["bytes"] for state in found["states"]) == expected
    assert sum(role["bytes"] for role in found["roles"]) == expected
    assert {file["name"] for file in found["files"]} == {f"rank-0000{rank}-of-00002.safetensors" for rank in range(2)}


def test_a_run_lists_its_checkpoints(tmp_path, ckpt):
    for step in (50, 100):
        write(tmp_path / f"step-{step:08}", model_states(1), step=step)
    (tmp_path / "step-00000150.partial").mkdir()
    (tmp_path / "step-00000020").mkdir()
    (tmp_path / "log.jsonl").write_text("")
    done = ckpt("inspect", tmp_path)
    assert done.code == 0
    lines = {line.split()[0]: line for line in done.out.splitlines()[2:]}
    assert lines["step-00000100"].endswith("latest") and "latest" not in lines["step-00000050"]
    assert "left by a crash" in lines["step-00000150.partial"]
    assert "no checkpoint" in lines["step-00000020"]
    found = json.loads(ckpt("inspect", tmp_path, "--json").out)
    assert found["latest"] == "step-00000100"
    assert [entry["status"] for entry in found["checkpoints"]] == ["unknown", "complete", "complete", "partial"]


def test_a_damaged_checkpoint_of_a_run_is_named(tmp_path, ckpt):
    write(tmp_path / "step-00000050", model_states(1), step=50)
    (write(tmp_path / "step-00000100", model_states(1), step=100) / "index.json").write_text("{")
    done = ckpt("inspect", tmp_path)
    assert done.code == 1
    assert "step-00000100/index.json: expected JSON" in done.out


def test_all_missing_pieces_are_listed(tmp_path, ckpt):
    folder = write(tmp_path / "step-00000007", model_states(3), world_size=3)
    (folder / "rank-00001-of-00003.safetensors").unlink()
    index = json.loads((folder / "index.json").read_text())
    del index["states"][0]["pieces"][0]
    (folder / "index.json").write_text(json.dumps(index))
    done = ckpt("inspect", folder)
    assert done.code == 1
    assert "missing: rank-00001-of-00003.safetensors: the file is missing" in done.out
    assert "missing: value/embed.weight: no piece for elements" in done.out


def test_safetensors_with_tied_names(tmp_path, ckpt):
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    save_model(model, tmp_path / "model.safetensors")
    done = ckpt("inspect", tmp_path / "model.safetensors")
    assert done.code == 0
    assert "tied: 0.weight = 1.weight" in done.out
    assert ckpt("inspect", tmp_path).out == done.out


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda path: None, "expected a checkpoint, found nothing"),
        (lambda path: path.write_text("x"), "found a file *.thing"),
        (lambda path: path.mkdir(), "found a folder with none of these"),
        (lambda path: path.with_suffix(".partial").mkdir(), "expected a checkpoint, found nothing"),
    ],
)
def test_what_is_no_checkpoint_is_refused(tmp_path, ckpt, make, text):
    path = tmp_path / "a.thing"
    make(path)
    done = ckpt("inspect", path)
    assert done.code == 2
    assert done.error.startswith(f"fcdp-ckpt: error: {path}: ") and text in done.error


def test_a_misspelt_option_gets_a_suggestion(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["inspect", "--statez", str(tmp_path)])
    assert "unrecognized arguments: --statez: did you mean '--states'?" in capsys.readouterr().err


def test_an_unfinished_checkpoint_is_refused(tmp_path, ckpt):
    folder = write(tmp_path / "step-00000007.partial", model_states(1))
    done = ckpt("inspect", folder)
    assert done.code == 2
    assert "expected a complete checkpoint" in done.error


def test_a_folder_of_several_files_without_index_is_refused(tmp_path, ckpt):
    for name in ("a", "b"):
        save_file({"x": torch.zeros(1)}, tmp_path / f"{name}.safetensors")
    done = ckpt("inspect", tmp_path)
    assert done.code == 2
    assert "expected one file *.safetensors, found 2" in done.error


def test_prefixes_are_for_distributed_checkpoints(tmp_path, ckpt):
    done = ckpt("inspect", write(tmp_path / "step-00000007", model_states(1)), "--model-prefix=app.model")
    assert done.code == 2
    assert "--model-prefix and --optimizer-prefix are for DCP folders" in done.error
