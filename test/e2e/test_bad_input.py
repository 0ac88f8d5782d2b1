# SPDX-License-Identifier: Apache-2.0
"""Unusable input is refused with one line and exit code 1, and no file is left."""

import json
import pickle
import shutil
import socket
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fcdp
from harness import BIN, Config, Workshop, compile_command, environment, rank_environment, run_command, tool

CONFIG = Config("tiny_params")
MODEL_JSON = "models/model.json"
WEIGHTS_JSON = "data/weights/model_weights_config.json"


@pytest.fixture
def archive(workshop: Workshop, tmp_path: Path) -> Path:
    """A copy of a good archive, alone in its folder."""
    return Path(shutil.copy(workshop.model(CONFIG.model).archive, tmp_path))


def refusal(command: list[str | Path], folder: Path, env: dict[str, str] | None = None, timeout: float = 60) -> str:
    """The line that the command ends with; `folder` must hold the same files afterwards."""
    before = sorted(folder.iterdir())
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=env or environment(),
        stdin=subprocess.DEVNULL,
    )
    lines = [line for line in done.stderr.splitlines() if line]
    assert done.returncode == 1, done.stderr
    assert len(lines) == 1 and "error: " in lines[0], done.stderr
    assert sorted(folder.iterdir()) == before
    return lines[0]


def refused_archive(archive: Path) -> str:
    line = refusal(compile_command(CONFIG, archive, archive.with_name("step.so")), archive.parent)
    assert archive.name in line
    return line


def rewrite(archive: Path, edit: Callable[[str, bytes], bytes]) -> None:
    """Passes each entry through `edit`, by its name inside the archive's folder."""
    with zipfile.ZipFile(archive) as source:
        entries = [(name, source.read(name)) for name in source.namelist()]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as target:
        for name, content in entries:
            target.writestr(name, edit(name.partition("/")[2], content))


def edit_json(archive: Path, entry: str, change: Callable[[Any], None]) -> None:
    def edit(name: str, content: bytes) -> bytes:
        if name != entry:
            return content
        document = json.loads(content)
        change(document)
        return json.dumps(document).encode()

    rewrite(archive, edit)


def edit_model(archive: Path, change: Callable[[Any], None]) -> None:
    edit_json(archive, MODEL_JSON, change)


# --- archives ---


def test_no_zip(archive: Path) -> None:
    archive.write_text("no archive")
    assert "zip" in refused_archive(archive)


def test_truncated(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    assert "truncated" in refused_archive(archive)


def test_archive_format(archive: Path) -> None:
    rewrite(archive, lambda name, content: b"pt9" if name == "archive_format" else content)
    assert "expected 'pt2'" in refused_archive(archive)


def test_schema_major(archive: Path) -> None:
    edit_model(archive, lambda model: model["schema_version"].update(major=9))
    assert "schema version 8, got 9" in refused_archive(archive)


def test_pickled_weights(archive: Path) -> None:
    def change(weights: Any) -> None:
        weights["config"]["fc.weight"]["use_pickle"] = True

    edit_json(archive, WEIGHTS_JSON, change)
    assert "'fc.weight' is pickled" in refused_archive(archive)


def test_symbolic_shapes(tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x).square().mean()

    archive = tmp_path / "symbolic.pt2"
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(Model(), (torch.randn(4, 8),), dynamic_shapes=({0: batch},))
    torch.export.save(program, archive)
    assert "symbolic" in refused_archive(archive)


def test_no_loss_output(tmp_path: Path) -> None:
    archive = tmp_path / "forward.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(8, 3), (torch.randn(4, 8),)), archive)
    assert "no loss output" in refused_archive(archive)


def test_no_such_archive(tmp_path: Path) -> None:
    assert "gone.pt2" in refused_archive(tmp_path / "gone.pt2")


def test_operator_unknown_to_libtorch(workshop: Workshop, archive: Path) -> None:
    def change(model: Any) -> None:
        nodes = model["graph_module"]["graph"]["nodes"]
        loss = next(node for node in nodes if node["target"] == "torch.ops.aten.mse_loss.default")
        loss["target"] = "torch.ops.aten.mse_lost.default"

    edit_model(archive, change)
    step = archive.with_name("step.so")
    tool(*compile_command(CONFIG, archive, step))
    assert "aten::mse_lost" in refused_run(workshop, archive.parent, step=step)


# --- runs ---


def refused_run(
    workshop: Workshop,
    folder: Path,
    *extra: str,
    config: Config = CONFIG,
    step: Path | None = None,
    weights: Path | None = None,
    env: dict[str, str] | None = None,
    **inputs: Path | str,
) -> str:
    model = workshop.model(config.model)
    files = (f"--json={folder / 'log.jsonl'}", f"--params-out={folder / 'out.safetensors'}")
    command = run_command(
        step or workshop.step(config), weights or model.archive, {**model.inputs, **inputs}, 2, *files, *extra
    )
    return refusal(command, folder, env)


def test_weights_without_bytes(workshop: Workshop, archive: Path) -> None:
    """The weights have no bytes, as in the archive of a model that was made without weights."""
    rewrite(archive, lambda name, content: b"" if name.startswith("data/weights/weight_") else content)
    line = refused_run(workshop, archive.parent, weights=archive)
    assert archive.name in line and "has no weights" in line


def test_weights_of_another_model(workshop: Workshop, tmp_path: Path) -> None:
    line = refused_run(workshop, tmp_path, weights=workshop.model("mlp_dropout").archive)
    assert "'fc.weight'" in line or "'scale'" in line


def test_weights_that_run_code(workshop: Workshop, tmp_path: Path) -> None:
    weights = tmp_path / "weights.pt"
    weights.write_bytes(pickle.dumps({"fc.weight": [1.0]}))
    assert "weights.pt" in refused_run(workshop, tmp_path, weights=weights)


def test_input_of_wrong_length(workshop: Workshop, tmp_path: Path) -> None:
    x = tmp_path / "x.npy"
    np.save(x, np.zeros((24, 5, 8), np.float32))
    line = refused_run(workshop, tmp_path, x=x)
    assert "x.npy" in line and "input 'x'" in line


def test_truncated_input(workshop: Workshop, tmp_path: Path) -> None:
    x = tmp_path / "x.npy"
    x.write_bytes(workshop.model(CONFIG.model).inputs["x"].read_bytes()[:-100])
    assert "x.npy" in refused_run(workshop, tmp_path, x=x)


def test_input_of_wrong_type(workshop: Workshop, tmp_path: Path) -> None:
    x = tmp_path / "x.npy"
    np.save(x, np.zeros((24, 4, 8), np.float64))
    assert "input 'x'" in refused_run(workshop, tmp_path, x=x)


def test_unknown_input(workshop: Workshop, tmp_path: Path) -> None:
    assert "z" in refused_run(workshop, tmp_path, z="random:1")


@pytest.mark.parametrize("token", [96, -1])
def test_token_outside_the_vocabulary(workshop: Workshop, tmp_path: Path, token: int) -> None:
    ids = tmp_path / "ids.npy"
    rows = np.load(workshop.model("gpt").inputs["ids"])
    rows[7, 1, 3] = token
    np.save(ids, rows)
    line = refused_run(workshop, tmp_path, config=Config("gpt"), ids=ids)
    assert "ids.npy" in line and f"value {token}" in line and "[0, 96)" in line


def test_token_file_with_a_token_outside(workshop: Workshop, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.u16"
    np.full(5000, 96, "<u2").tofile(tokens)
    line = refused_run(workshop, tmp_path, config=Config("gpt"), ids=f"{tokens}:u16", labels=f"{tokens}:u16+1")
    assert "tokens.u16" in line and "value 96" in line


def test_short_token_file(workshop: Workshop, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.u16"
    np.zeros(10, "<u2").tofile(tokens)
    line = refused_run(workshop, tmp_path, config=Config("gpt"), ids=f"{tokens}:u16", labels=f"{tokens}:u16+1")
    assert "tokens.u16" in line


def test_plan_for_another_world_size(workshop: Workshop, tmp_path: Path) -> None:
    line = refused_run(workshop, tmp_path, "--nodes=3", "--ranks-per-node=2")
    assert "2 nodes x 2 ranks" in line and "3 nodes x 2 ranks" in line
    only = replace(CONFIG, nodes=1, local=1)
    line = refused_run(workshop, tmp_path, env=rank_environment(only, 0, 29400))
    assert "2 nodes x 2 ranks" in line


def test_port_in_use(workshop: Workshop, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refused_run(workshop, tmp_path, env=rank_environment(CONFIG, 0, port))
    assert f"port {port} is in use" in line


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--stepz=4", "unknown option '--stepz=4'; did you mean '--steps=4'?; see fcdp-run --help"),
        ("--safe-dir", "unknown option '--safe-dir'; did you mean '--save-dir'?; see fcdp-run --help"),
        ("--steps-of-all", "unknown option '--steps-of-all'; see fcdp-run --help"),
    ],
)
def test_misspelt_options(workshop: Workshop, tmp_path: Path, given: str, message: str) -> None:
    assert refused_run(workshop, tmp_path, given).endswith(f"fcdp-run: error: {message}")


def test_another_libtorch(tmp_path: Path) -> None:
    """A library in front of libtorch has the version of another one. Nothing else is looked at before."""
    source, library = tmp_path / "version.c", tmp_path / "version.so"
    source.write_text("unsigned long aoti_torch_abi_version(void) { return 2ul << 56 | 99ul << 48; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [BIN / "fcdp-run", *arguments]
        variables = environment({"LD_PRELOAD": str(library)})
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=variables)

    # A report of that very problem can be made.
    assert run("--report-environment").returncode == 0
    done = run("absent.so", "--steps=1")
    built = torch.__version__.partition("+")[0]
    assert done.returncode == 1
    assert f"error: fcdp was built for PyTorch {built}, and libtorch here is 2.99.0" in done.stderr
    assert f"install torch=={built}" in done.stderr


def test_no_compiled_step(workshop: Workshop, tmp_path: Path) -> None:
    step = tmp_path / "step.so"
    step.write_text("no object")
    assert "step.so" in refused_run(workshop, tmp_path, step=step)


def test_damaged_plan(workshop: Workshop, tmp_path: Path) -> None:
    step = tmp_path / "step.so"
    content = workshop.step(CONFIG).read_bytes()
    assert b"aten::" in content
    step.write_bytes(content.replace(b"aten::", b"atem::", 1))
    assert "hash" in refused_run(workshop, tmp_path, step=step)


def test_export_without_a_loss(tmp_path: Path) -> None:
    with pytest.raises(fcdp.ExportError, match="scalar loss"):
        fcdp.export(torch.nn.Linear(8, 3), (torch.randn(4, 8),), tmp_path / "step.pt2")
    assert list(tmp_path.iterdir()) == []
