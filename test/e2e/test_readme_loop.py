# SPDX-License-Identifier: Apache-2.0
"""The README's loop runs as it is written there, and fcdp-sim gives the figures of its table."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from harness import BIN, LONG, ROOT, environment, tool

README = (ROOT / "README.md").read_text()
ROWS, LENGTH, BATCH, RANKS = 64, 8, 4, 2


def test_the_loop_trains(tmp_path: Path) -> None:
    """Its model is a folder of that name, so that nothing is downloaded."""
    [script] = re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)
    assert len(script.splitlines()) == 10
    (tmp_path / "train.py").write_text(script)
    [name] = re.findall(r'from_pretrained\("(.*?)"', script)
    torch.manual_seed(0)
    shape: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "vocab_size": 32,
    }
    LlamaForCausalLM(LlamaConfig(**shape)).save_pretrained(tmp_path / name)
    torch.save(torch.arange(LENGTH).expand(ROWS, LENGTH).clone(), tmp_path / "rows.pt")

    [command] = re.findall(r"^    (torchrun .*)$", README, re.M)
    torchrun, *arguments = command.split()
    variables = {"FCDP_CACHE": str(tmp_path / "cache")}
    # env has the folder, as `tool` has no argument for it.
    in_folder = ("env", "-C", str(tmp_path), str(Path(sys.executable).with_name(torchrun)))
    lines = tool(*in_folder, *arguments, env=environment(variables)).splitlines()
    assert [int(line.split()[0]) for line in lines] == list(range(1, 1 + ROWS // BATCH // RANKS))
    losses = [float(line.split()[1]) for line in lines]
    assert losses[-1] < losses[0]


def setting(name: str) -> list[str]:
    """The words of a variable of the table's commands."""
    [words] = re.findall(rf'^    {name}="(.*)"$', README, re.M)
    return str(words).split()


def shown(archive: str) -> dict[str, str]:
    """Seconds by strategy in the row whose command reads an archive."""
    [row] = re.findall(rf"^\|.*fcdp-sim {archive} \$ON.*$", README, re.M)
    return dict(re.findall(r"`(\w+)` ([\d.]+) s", row))


# The exports of 8 billion parameters take minutes, which CI has not.
@LONG
@pytest.mark.parametrize("archive", ["llama.pt2", "lora.pt2"])
def test_predictions_are_those_of_the_simulator(archive: str, tmp_path: Path) -> None:
    [line] = re.findall(rf"^    \.venv/bin/python (.*) --out {archive}$", README, re.M)
    script, *arguments = line.split()
    out = tmp_path / archive
    tool(sys.executable, ROOT / script, *arguments, f"--out={out}", timeout=900)
    text = tool(BIN / "fcdp-sim", out, *setting("ON"), timeout=300)
    found = dict(re.findall(r"strategy (\w+)\n.*?\ntime +([\d.]+) s", text, re.S))
    expected = shown(archive)
    assert expected.keys() == found.keys() == {"zero3", "fcdp", "auto"}
    for strategy, seconds in expected.items():
        digits = len(seconds.partition(".")[2])
        assert f"{float(found[strategy]):.{digits}f}" == seconds, (
            f"README has {seconds} s for {strategy}, fcdp-sim {found[strategy]}"
        )
