# SPDX-License-Identifier: Apache-2.0
"""The wheel of the present build trains in a fresh virtual environment, and says so under another PyTorch."""

import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from harness import BIN, ROOT, environment, tool

# One process of pytest-xdist makes the wheel.
pytestmark = pytest.mark.xdist_group("wheel")

TRAIN = """
import sys
import torch
from torch import nn
import fcdp
from fcdp.loop.install import find_install

assert fcdp.__file__.startswith(sys.prefix), fcdp.__file__
assert str(find_install().library).startswith(sys.prefix), find_install()
torch.manual_seed(0)
model = nn.Linear(4, 1)
x, y = torch.ones(2, 4), torch.zeros(2, 1)
with fcdp.compile(model, (x, y), optimizer="sgd,lr=0.1", loss_fn=nn.functional.mse_loss, cache=sys.argv[1]) as step:
    losses = [step(x, y).item() for _ in range(2)]
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for found in losses:
    loss = nn.functional.mse_loss(model(x), y)
    assert abs(loss.item() - found) <= 1e-6 * abs(found), (loss, found)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
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


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A virtual environment with the wheel, and with the PyTorch and the packages of this one."""
    if not all((BIN / name).exists() for name in ("fcdp-compile", "fcdp-opt", "fcdp-translate", "fcdp-sim", "fcdp-cluster", "fcdp-run")):
        pytest.skip("not all of the wheel's tools are built")
    if not can_install():
        pytest.skip("the packages of scripts/wheel-requirements.txt cannot be installed here")
    folder = tmp_path_factory.mktemp("wheel")
    # To compress it takes longer than all else.
    fast = environment({"AUDITWHEEL_ZIP_COMPRESSION_LEVEL": "0"})
    tool(ROOT / "scripts" / "wheel", "--as-built", folder / "dist", timeout=600, env=fast)
    (wheel,) = (folder / "dist").glob("fcdp-*.whl")
    tool(sys.executable, "-m", "venv", "--system-site-packages", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    tool(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel)
    site = Path(tool(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    # Paths that a .pth file adds come last, and their own .pth files are not read: that of this checkout is not.
    (site / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    # fcdp-run looks for PyTorch beside the package.
    (site / "torch").symlink_to(Path(torch.__file__).parent)
    yield python


def test_trains(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    tool(installed, tmp_path / "train.py", tmp_path / "cache")


def test_pip_installs_the_torch_that_it_was_built_with(installed: Path) -> None:
    needs = tool(installed, "-c", "from importlib.metadata import requires; print(*requires('fcdp'), sep='\\n')").splitlines()
    assert [need for need in needs if need.startswith("torch")] == [f"torch=={torch.__version__.partition('+')[0]}"]


def test_commands(installed: Path) -> None:
    for name in ("fcdp-compile", "fcdp-run", "fcdp-ckpt"):
        assert name in tool(installed.parent / name, "--help")


def test_another_torch(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(OTHER_TORCH)
    built = torch.__version__.partition("+")[0]
    said = tool(installed, tmp_path / "other.py", env=environment({"FCDP_CACHE": str(tmp_path / "cache")}))
    assert f"install: fcdp's library was built for PyTorch {built}, and this is 2.99.1" in said
    assert f"install torch=={built}" in said
