# SPDX-License-Identifier: Apache-2.0
"""The commands and the script of docs/fcdp-ckpt.md run as they are written there."""

import json
import re
import shlex
from pathlib import Path

import pytest
import torch
from made_checkpoints import parameter, write
from transformers import MixtralConfig, MixtralForCausalLM

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "fcdp-ckpt.md").read_text()
# Two checkpoints of a run differ, and they have no digests; all else is right.
CODES = {"fcdp-ckpt diff run/step-00000050 run/step-00000100": 1, "fcdp-ckpt inspect run --verify": 1}


@pytest.mark.filterwarnings("ignore")
def test_the_examples_run(tmp_path, ckpt, monkeypatch):
    model = torch.nn.Linear(3, 2)
    for step in (10, 50, 100):
        values = [parameter([name], torch.randn(p.shape), updates=step) for name, p in model.named_parameters()]
        states = [state for made in values for state in made]
        write(tmp_path / "run" / f"step-{step:08}", states, world_size=2, step=step)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "x"}))
    shape = {"vocab_size": 8, "hidden_size": 8, "intermediate_size": 8, "num_local_experts": 2}
    heads = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}
    MixtralForCausalLM(MixtralConfig(**shape, **heads)).save_pretrained(tmp_path / "model")
    monkeypatch.chdir(tmp_path)

    commands = re.findall(r"^    (fcdp-ckpt .*)$", PAGE, re.M)
    assert len(commands) == 14
    assert {shlex.split(command)[1] for command in commands} == {"inspect", "diff", "convert", "prune"}
    for command in commands:
        done = ckpt(*shlex.split(command)[1:])
        assert done.code == CODES.get(command, 0), (command, done)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["step-00000050", "step-00000100"]

    [script] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    optimizer = torch.optim.AdamW(model.parameters())
    exec(script, {"model": model, "optimizer": optimizer})
    assert optimizer.state[model.weight]["step"] == 100
    assert optimizer.param_groups[0]["lr"] == 3e-4


@pytest.mark.parametrize("command", [[], ["inspect"], ["diff"], ["convert"], ["prune"]])
def test_help_has_an_example(ckpt, command):
    done = ckpt(*command, "--help")
    assert done.code == 0
    assert f"example: fcdp-ckpt {' '.join(command)}" in done.out
    assert "exit code" in done.out or not command


def test_the_command_is_installed_with_the_package():
    assert 'fcdp-ckpt = "fcdp.checkpoint.cli:program"' in (ROOT / "python" / "pyproject.toml").read_text()
