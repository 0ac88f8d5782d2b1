# SPDX-License-Identifier: Apache-2.0
"""The scripts that the end-to-end tests and the example run."""

import json
import subprocess
import sys
from pathlib import Path

import archive
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parents[2]


def run(script: str, *args: object) -> str:
    command = [sys.executable, str(ROOT / script), *map(str, args)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_export_and_reference(tmp_path):
    run("test/e2e/models/make_models.py", "tiny_params", "--out", tmp_path)
    described = json.loads((tmp_path / "tiny_params.json").read_text())
    assert list(described["inputs"]) == archive.user_inputs(tmp_path / "tiny_params.pt2")
    assert np.load(tmp_path / described["inputs"]["x"]["file"]).shape == (24, 4, 8)

    losses, params = tmp_path / "losses.json", tmp_path / "params.safetensors"
    arguments = ["tiny_params", "--models", tmp_path, "--world", 2, "--steps", 3, "--optimizer", "sgd,lr=0.1"]
    run("test/e2e/models/reference.py", *arguments, "--out", losses, "--params", params)
    assert len(json.loads(losses.read_text())["losses"]) == 3
    assert {name: list(p.shape) for name, p in load_file(params).items()} == {
        "scale": [],
        "shift": [1],
        "fc.weight": [3, 8],
        "fc.bias": [3],
    }


@pytest.mark.skipif(not Path("/usr/share/common-licenses").is_dir(), reason="its text is Debian's")
def test_gpt_example(tmp_path):
    run("examples/gpt/export.py", "--out", tmp_path, "--layers", 1, "--heads", 2, "--width", 16, "--batch", 1)
    vocabulary = json.loads((tmp_path / "vocabulary.json").read_text())
    tokens = np.fromfile(tmp_path / "tokens.u16", dtype="<u2")
    assert len(tokens) > 100_000 and tokens.max() == len(vocabulary) - 1
    assert archive.user_inputs(tmp_path / "step.pt2") == ["ids", "labels"]


def make_language_model(folder: Path) -> None:
    """A small Llama whose tokens are bytes, as from_pretrained reads it."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={character: i for i, character in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(vocab_size=256, max_position_embeddings=32, **shape)).save_pretrained(folder)


def test_transformers_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They run as the only rank, losses fall, and Transformers and PEFT load what they write."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    monkeypatch.setenv("FCDP_CACHE", str(tmp_path / "cache"))
    make_language_model(tmp_path / "base")
    # Eight lines are the rows of a step of finetune.py: all are short in some steps.
    (tmp_path / "text").write_text("All work and no play makes Jack a dull boy.\n" * 4 + "All work\n" * 76)
    common = ("--model", tmp_path / "base", "--text", tmp_path / "text")
    for script, *more in (["finetune.py", "--lengths", 12, 32], ["lora.py", "--length", 32, "--steps", 8]):
        lines = run(f"examples/transformers/{script}", *common, "--out", tmp_path / script, *more).splitlines()
        losses = [float(line.rpartition(" ")[2]) for line in lines]
        assert len(losses) >= 8 and losses[-1] < losses[0], lines
        lengths = {line.split("length ")[1].split()[0] for line in lines if "length" in line}
        assert lengths == ({"12", "32"} if script == "finetune.py" else set())
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    trained = AutoModelForCausalLM.from_pretrained(tmp_path / "finetune.py")
    assert not torch.equal(trained.lm_head.weight, base.lm_head.weight)
    adapter = PeftModel.from_pretrained(base, tmp_path / "lora.py").state_dict()
    assert all(value.abs().max() > 0 for name, value in adapter.items() if "lora_B" in name)


def test_trainer_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It trains, evaluates, saves and goes on from its checkpoint."""
    from transformers import AutoModelForCausalLM

    monkeypatch.setenv("FCDP_CACHE", str(tmp_path / "cache"))
    make_language_model(tmp_path / "base")
    (tmp_path / "text").write_text("All work and no play.\n" * 80)
    common = ("--model", tmp_path / "base", "--text", tmp_path / "text", "--length", 32, "--out", tmp_path / "out")
    run("examples/transformers/trainer.py", *common, "--steps", 8)
    history = json.loads((tmp_path / "out" / "checkpoint-8" / "trainer_state.json").read_text())["log_history"]
    losses = [entry["loss"] for entry in history if "loss" in entry]
    assert len(losses) == 8 and losses[-1] < losses[0]
    run("examples/transformers/trainer.py", *common, "--steps", 10, "--resume")
    history = json.loads((tmp_path / "out" / "checkpoint-10" / "trainer_state.json").read_text())["log_history"]
    assert [entry["loss"] for entry in history if "loss" in entry][:8] == losses
    AutoModelForCausalLM.from_pretrained(tmp_path / "out")
