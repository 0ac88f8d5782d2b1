# SPDX-License-Identifier: Apache-2.0
"""The cache of compiled steps: damaged entries are made again, and a folder that cannot be used is reported."""

import errno
import hashlib
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from fcdp.errors import ExportError, StepError, printable_line
from fcdp.loop import cache
from fcdp.loop.cache import place, read_step, work_folder


def seal(content: bytes) -> bytes:
    """Returns an object as fcdp-compile writes it."""
    return content + b"\x7fFCDPSUM" + hashlib.sha1(content).hexdigest().encode()


STEP = seal(bytes(range(256)) * 8)


def damage(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(change(path.read_bytes()))


def replaced_by(make: Callable[[Path], object]) -> Callable[[Path], object]:
    def replace(path: Path) -> None:
        path.unlink()
        make(path)

    return replace


DAMAGES = {
    "empty": damage(lambda kept: b""),
    "cut": damage(lambda kept: kept[:100]),
    "without its hash": damage(lambda kept: kept[:2048]),
    "cut in its hash": damage(lambda kept: kept[:-1]),
    "longer": damage(lambda kept: kept + b"x"),
    "a flipped bit": damage(lambda kept: kept[:70] + bytes([kept[70] ^ 1]) + kept[71:]),
    "zeros": damage(lambda kept: bytes(len(kept))),
    "a pipe": replaced_by(os.mkfifo),
    "a link to nothing": replaced_by(lambda path: path.symlink_to("nothing")),
    "a link to a device": replaced_by(lambda path: path.symlink_to("/dev/zero")),
}


@pytest.mark.parametrize("change", DAMAGES.values(), ids=DAMAGES)
def test_damaged_entries_are_made_again(tmp_path: Path, change: Callable[[Path], object]) -> None:
    path = tmp_path / "cache" / "step.so"
    assert place(path, STEP) == path and read_step(path) == STEP
    change(path)
    assert read_step(path) is None
    assert place(path, STEP) == path and read_step(path) == STEP
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_as_an_entry_is_said(tmp_path: Path) -> None:
    path = tmp_path / "step.so"
    path.mkdir()
    assert read_step(path) is None
    expect_a_file_elsewhere(path)


def expect_a_file_elsewhere(path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="the cache of compiled steps cannot be used .*FCDP_CACHE"):
        elsewhere = place(path, STEP)
    assert elsewhere.name == path.name and elsewhere.parent != path.parent
    assert read_step(elsewhere) == STEP


@pytest.mark.parametrize("folder", ["file", "file/folder", "/proc/fcdp"])
def test_a_cache_that_cannot_be_made(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("no folder")
    expect_a_file_elsewhere(tmp_path / folder / "step.so")
    with work_folder(tmp_path / folder) as work:
        (work / "archive").write_bytes(STEP)
    assert (tmp_path / "file").read_text() == "no folder"


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EFBIG])
def test_a_cache_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    real = os.replace

    def replace(source: Path, target: Path) -> None:
        if Path(target).is_relative_to(tmp_path):
            raise OSError(error, os.strerror(error))
        real(source, target)

    monkeypatch.setattr(cache.os, "replace", replace)
    expect_a_file_elsewhere(tmp_path / "cache" / "step.so")
    assert not any((tmp_path / "cache").iterdir())


def test_a_full_disk_has_no_work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with work_folder(tmp_path / "cache") as work:
        assert work.parent == tmp_path / "cache"
    assert not any((tmp_path / "cache").iterdir())
    monkeypatch.setattr(cache, "_LEAST_FREE_BYTES", 1 << 62)
    with work_folder(tmp_path / "cache") as work:
        assert work.parent != tmp_path / "cache"


def test_what_a_killed_process_has_left_is_removed(tmp_path: Path) -> None:
    old, new = tmp_path / ".step-old", tmp_path / ".step-new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "archive").write_bytes(STEP)
    os.utime(old, (0, 0))
    with work_folder(tmp_path):
        assert not old.exists() and new.exists()


def test_a_file_of_its_own_is_removed_at_the_end(tmp_path: Path) -> None:
    """By the process that has made it, and by no child."""
    program = """
import os, sys
from pathlib import Path
from fcdp.loop.cache import place
path = place(Path(sys.argv[1]) / "step.so", b"step")
if os.fork() == 0:
    sys.exit(0)
os.wait()
assert path.exists()
print(path)
"""
    (tmp_path / "file").touch()
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "file"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not Path(done.stdout.strip()).parent.exists()


def test_an_intact_entry_needs_no_room(tmp_path: Path) -> None:
    path = place(tmp_path / "step.so", STEP)
    path.chmod(0o400)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_step(path) == STEP


def test_control_characters_in_errors() -> None:
    """Names of parameters come from strangers' files, and terminals obey these."""
    name = "a\x1b[2Jb\x9bc\rd\x7f\u202ee"
    spelled = "a\\x1b[2Jb\\x9bc\\rd\\x7f\\u202ee"
    assert str(StepError("misuse", f"no '{name}'\nä\t€")) == f"no '{spelled}'\nä\t€"
    assert str(ExportError(name)) == spelled
    assert printable_line("a\nb") == "a\\nb"
