# SPDX-License-Identifier: Apache-2.0
"""fcdp-ckpt prune."""

import json
import os
import shutil

import pytest
from made_checkpoints import model_states, write


def copy(checkpoint, folder):
    """Copies a checkpoint as that of another step."""
    shutil.copytree(checkpoint, folder)
    index = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps({**index, "step": int(folder.name.removeprefix("step-"))}))


@pytest.fixture
def run(tmp_path):
    """Four checkpoints, what two crashes and a removal left, and other files."""
    first = write(tmp_path / "step-00000010", model_states(1), step=10)
    for step in (20, 30, 40):
        copy(first, tmp_path / f"step-{step:08}")
    for number, name in enumerate(("step-00000015.partial", "step-00000050.partial", "step-00000005.removed")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "rank-00000-of-00001.safetensors").write_bytes(b"x" * 10)
        for path in (folder / "rank-00000-of-00001.safetensors", folder):
            os.utime(path, (1000 + number, 1000 + number))
    (tmp_path / "log.jsonl").write_text("{}\n")
    (tmp_path / "step-00000001").mkdir()
    return tmp_path


def names(run):
    return sorted(path.name for path in run.iterdir())


def test_keeps_the_latest_and_what_a_job_may_be_writing(run, ckpt):
    done = ckpt("prune", run, "--keep=2")
    assert (done.code, done.error) == (0, "")
    kept = ["log.jsonl", "step-00000001", "step-00000030", "step-00000040", "step-00000050.partial"]
    assert names(run) == kept
    assert len(done.out.splitlines()) == 4 and "step-00000005.removed (left by a removal, 10 bytes)" in done.out
    assert ckpt("prune", run, "--keep=2").out == ""


def test_the_best_one_stays(run, ckpt):
    index = run / "step-00000040" / "index.json"
    content = json.loads(index.read_text())
    content["job"]["best_step"] = 20
    index.write_text(json.dumps(content))
    # The job writes it again and again; a damaged index does not hide it.
    shutil.copytree(run / "step-00000040", run / "step-00000060")
    (run / "step-00000060" / "index.json").write_text("{")
    assert ckpt("prune", run, "--keep=1", "--force").code == 0
    assert [name for name in names(run) if name.startswith("step-")] == ["step-00000001", "step-00000020", "step-00000060"]


def test_force_removes_all_leftovers(run, ckpt):
    assert ckpt("prune", run, "--keep=9", "--force").code == 0
    assert not [name for name in names(run) if "." in name and name != "log.jsonl"]
    assert len(names(run)) == 6


def test_a_dry_run_removes_nothing(run, ckpt):
    before = names(run)
    done = ckpt("prune", run, "--keep=1", "--dry-run")
    assert done.code == 0
    assert done.out.count("would remove ") == 5
    assert names(run) == before


def test_the_name_changes_before_anything_goes(run, ckpt, monkeypatch):
    def fail(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", fail)
    done = ckpt("prune", run, "--keep=3")
    assert done.code == 2
    assert "step-00000010.removed: Permission denied" in done.error
    assert "step-00000010" not in names(run) and "step-00000010.removed" in names(run)


def test_the_partial_folder_that_is_written_to_stays(run, ckpt):
    file = run / "step-00000015.partial" / "rank-00000-of-00001.safetensors"
    os.utime(file, (5000, 5000))
    assert ckpt("prune", run, "--keep=2").code == 0
    assert "step-00000015.partial" in names(run) and "step-00000050.partial" not in names(run)


@pytest.mark.parametrize("keep", ["0", "-1", "x", "1.5"])
def test_at_least_one_is_kept(run, ckpt, keep):
    before = names(run)
    done = ckpt("prune", run, f"--keep={keep}")
    assert done.code == 2
    assert "expected a number" in done.error
    assert names(run) == before


def test_other_folders_are_refused(tmp_path, ckpt):
    for path, found in ((tmp_path, "none"), (tmp_path / "no", "nothing")):
        done = ckpt("prune", path, "--keep=1")
        assert done.code == 2
        assert f"found {found}; " in done.error
