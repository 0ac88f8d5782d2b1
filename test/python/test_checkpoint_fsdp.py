# SPDX-License-Identifier: Apache-2.0
"""An FSDP2 script continues from a converted checkpoint, and what its ranks save is read."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import torch
from fsdp_script import make_model, step
from made_checkpoints import Made, write

SCRIPT = Path(__file__).resolve().parent / "fsdp_script.py"
RANKS = 2


def run_script(*arguments: object) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = []
    for rank in range(RANKS):
        variables = {"RANK": rank, "WORLD_SIZE": RANKS, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1}
        environment = os.environ | {key: str(value) for key, value in variables.items()}
        command = [sys.executable, SCRIPT, *arguments]
        processes.append(subprocess.Popen([str(part) for part in command], env=environment, stderr=subprocess.PIPE, text=True))
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * RANKS, errors


def states_of(model, optimizer):
    states = []
    for name, value in model.named_parameters():
        own = optimizer.state[value]
        states.append(Made([name], "value", value.detach(), settings={"updates": int(own["step"]), "trainable": True}))
        states += [Made([name], role, own[role]) for role in ("exp_avg", "exp_avg_sq")]
    return states


def test_a_script_with_fsdp2_continues(tmp_path, ckpt):
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    step(model, optimizer)
    before = write(tmp_path / "before", states_of(model, optimizer), world_size=3, step=1)
    step(model, optimizer)
    after = write(tmp_path / "after", states_of(model, optimizer), world_size=1, step=2)

    assert ckpt("convert", before, tmp_path / "there", "--to=dcp", "--optimizer=adamw,lr=0.05").code == 0
    run_script(tmp_path / "there", tmp_path / "back")
    assert len(list((tmp_path / "back").glob("*.distcp"))) == RANKS
    # Shards may be computed by other kernels.
    done = ckpt("diff", after, tmp_path / "back", "--tolerance=1e-4")
    assert done.code == 0, done.out
    assert ckpt("diff", before, tmp_path / "back", "--tolerance=1e-4").code == 1
    assert ckpt("convert", tmp_path / "back", tmp_path / "out", "--to=fcdp", f"--like={before}").code == 0
    assert ckpt("diff", tmp_path / "back", tmp_path / "out").code == 0
    assert "2 steps done" in ckpt("inspect", tmp_path / "out").out
