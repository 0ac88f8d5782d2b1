# SPDX-License-Identifier: Apache-2.0
"""The wheel of the present build trains in a fresh virtual environment, and says so under another PyTorch.

The environment sees neither this checkout nor .venv. It has the files of the wheel, and of the packages that the
wheel's metadata name, in the versions of .venv. These files are linked, because installing them takes a minute.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from harness import BIN, ROOT, environment, tool

# One process of pytest-xdist makes the wheel.
pytestmark = pytest.mark.xdist_group("wheel")

# Each rank trains, and compares the losses with the losses of PyTorch on both ranks' rows.
TRAIN = """
import importlib.util, sys
import torch
from torch import nn
import fcdp
from fcdp.loop.install import find_install

assert fcdp.__file__.startswith(sys.prefix), fcdp.__file__
assert str(find_install().library).startswith(sys.prefix), find_install()
assert not importlib.util.find_spec("transformers") and not importlib.util.find_spec("pytest")
torch.manual_seed(0)
model = nn.Linear(4, 1)
x, y = torch.randn(2, 2, 4), torch.zeros(2, 2, 1)
with fcdp.compile(model, (x[0], y[0]), optimizer="sgd,lr=0.1", loss_fn=nn.functional.mse_loss, cache=sys.argv[1]) as step:
    assert step.num_ranks == 2
    losses = [step(x[step.rank], y[step.rank]).item() for _ in range(3)]
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for found in losses:
    loss = nn.functional.mse_loss(model(x), y)
    assert abs(loss.item() - found) <= 1e-5 * abs(found), (loss, found)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

TRAINER = """
import sys
import torch
from transformers import LlamaConfig, LlamaForCausalLM, TrainingArguments
import fcdp
from fcdp.integrations.transformers import CompiledTrainer

assert fcdp.__file__.startswith(sys.prefix), fcdp.__file__
torch.manual_seed(0)
shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
model = LlamaForCausalLM(LlamaConfig(vocab_size=29, max_position_embeddings=8, **shape))
row = torch.arange(8)
rows = [{"input_ids": row, "labels": row}] * 8
arguments = TrainingArguments(sys.argv[1], max_steps=4, per_device_train_batch_size=2, learning_rate=1e-2, logging_steps=1,
                              use_cpu=True, disable_tqdm=True, report_to="none", save_strategy="no")
trainer = CompiledTrainer(model, arguments, train_dataset=rows, step_options={"cache": sys.argv[2]})
trainer.train()
losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
assert len(losses) == 4 and losses[-1] < 0.9 * losses[0], losses
"""

OTHER_TORCH = """
import torch
torch.__version__ = "2.99.1+cpu"
import fcdp
try:
    fcdp.compile(torch.nn.Linear(1, 1), (torch.ones(1, 1), torch.ones(1, 1)), loss_fn=torch.nn.functional.mse_loss)
except fcdp.StepError as error:
    print(f"{error.code}: {error}")
"""


def can_install() -> bool:
    """Whether the packager of scripts/wheel is there, or pip can get it."""
    if (ROOT / "build" / "wheel-env" / "requirements").exists():
        return True
    wanted = ROOT / "scripts" / "wheel-requirements.txt"
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--requirement", wanted]
    try:
        return subprocess.run(list(map(str, command)), capture_output=True, timeout=60).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def needed(*names: str) -> dict[str, Distribution]:
    """Returns, by name, the installed distributions that pip would install for these."""
    found: dict[str, Distribution] = {}
    left = list(names)
    while left:
        name = canonicalize_name(left.pop())
        if name not in found:
            found[name] = distribution(name)
            needs = map(Requirement, found[name].requires or [])
            left += [need.name for need in needs if not need.marker or need.marker.evaluate({"extra": ""})]
    return found


def link(site: Path, *names: str) -> None:
    """Puts the packages that these need into a folder, as links to the files of this environment."""
    for one in needed(*names).values():
        for file in one.files or []:
            if ".." in file.parts or file.suffix == ".pyc":  # commands, which name another Python
                continue
            target, source = site / file, str(one.locate_file(file))
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.exists():
                continue
            try:
                os.link(source, target)
            except OSError:  # on another file system
                shutil.copy2(source, target)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The Python of a fresh virtual environment with the wheel and the packages that its metadata name."""
    if not all((BIN / name).exists() for name in ("fcdp-compile", "fcdp-opt", "fcdp-translate", "fcdp-sim", "fcdp-cluster", "fcdp-run", "fcdp-probe")):
        pytest.skip("not all of the wheel's tools are built")
    if not can_install():
        pytest.skip("the packages of scripts/wheel-requirements.txt cannot be installed here")
    folder = tmp_path_factory.mktemp("wheel")
    # To compress it takes longer than all else.
    fast = environment({"AUDITWHEEL_ZIP_COMPRESSION_LEVEL": "0"})
    tool(ROOT / "scripts" / "wheel", "--as-built", folder / "dist", timeout=600, env=fast)
    (wheel,) = (folder / "dist").glob("fcdp-*.whl")
    tool(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    site = Path(tool(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    link(site, "torch", "numpy", "safetensors", "xxhash")
    # With its dependencies: pip fails if a package that the wheel needs is absent, or of another version.
    tool(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", wheel, env=alone(python))
    yield python


def alone(python: Path) -> dict[str, str]:
    """An environment that leads to neither this checkout nor .venv."""
    kept = {name: value for name, value in environment().items() if not name.startswith(("PYTHON", "PIP_", "FCDP_", "VIRTUAL_ENV"))}
    return {**kept, "PATH": f"{python.parent}:/usr/bin:/bin", "PYTHONNOUSERSITE": "1", "OMP_NUM_THREADS": "1", "FCDP_STRATEGY": "fcdp"}


def train(python: Path, folder: Path, script: str, *arguments: Path) -> None:
    """Runs a script on two ranks, as torchrun starts them."""
    (folder / "train.py").write_text(script)
    ranks = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    tool(python, *ranks, folder / "train.py", *arguments, timeout=600, env=alone(python))


def test_trains(installed: Path, tmp_path: Path) -> None:
    train(installed, tmp_path, TRAIN, tmp_path / "cache")


def test_trainer(installed: Path, tmp_path: Path) -> None:
    """Transformers and Accelerate, which the wheel does not need, are installed beside it."""
    site = Path(tool(installed, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    link(site, "transformers", "accelerate")
    train(installed, tmp_path, TRAINER, tmp_path / "out", tmp_path / "cache")


def test_pip_installs_the_torch_that_it_was_built_with(installed: Path) -> None:
    needs = tool(installed, "-c", "from importlib.metadata import requires; print(*requires('fcdp'), sep='\\n')", env=alone(installed)).splitlines()
    assert [need for need in needs if need.startswith("torch")] == [f"torch=={torch.__version__.partition('+')[0]}"]


def test_commands(installed: Path) -> None:
    for name in ("fcdp-compile", "fcdp-run", "fcdp-ckpt"):
        assert name in tool(installed.parent / name, "--help", env=alone(installed))


def test_another_torch(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(OTHER_TORCH)
    built = torch.__version__.partition("+")[0]
    said = tool(installed, tmp_path / "other.py", env={**alone(installed), "FCDP_CACHE": str(tmp_path / "cache")})
    assert f"install: fcdp's library was built for PyTorch {built}, and this is 2.99.1" in said
    assert f"install torch=={built}" in said
