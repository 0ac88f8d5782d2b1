# SPDX-License-Identifier: Apache-2.0
"""Digests of checkpoints: no bit may change, and no file may be another one's."""

import json
import random
import shutil

import pytest
import torch
from made_checkpoints import Made, model_states, write

from fcdp.checkpoint.digests import BLOCK_BYTES, BlockDigester, digest_of, seal

FILE = "rank-00001-of-00002.safetensors"


@pytest.fixture
def old(tmp_path):
    """A checkpoint of the first version, which had no digests."""
    return write(tmp_path / "step-00000007", model_states(2), world_size=2)


@pytest.fixture
def source(tmp_path, ckpt, old):
    assert ckpt("convert", old, tmp_path / "new" / "step-00000007", "--to=fcdp").code == 0
    return tmp_path / "new" / "step-00000007"


def flip(path, bit):
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def change(source, edit):
    """Changes the index, and gives it the digest of what it has then."""
    index = json.loads((source / "index.json").read_text())
    del index["digest"]
    edit(index)
    (source / "index.json").write_text(seal(json.dumps(index)))


def test_what_is_written_is_verified(tmp_path, ckpt, source):
    done = ckpt("inspect", source, "--verify")
    assert (done.code, done.error) == (0, "") and "missing" not in done.out
    assert json.loads(ckpt("inspect", source, "--json").out)["digests"] is True
    assert ckpt("inspect", source.parent, "--verify").code == 0
    assert ckpt("diff", source, tmp_path / "step-00000007").code == 0


def test_an_older_checkpoint_is_read_with_a_note(ckpt, old):
    done = ckpt("inspect", old)
    assert done.code == 0 and "no digests, as an older release saved it" in done.out
    # There is nothing to compare with.
    assert ckpt("inspect", old, "--verify").code == 1
    assert ckpt("inspect", old.parent, "--verify").code == 1


def test_weights_have_no_digests(tmp_path, ckpt, source):
    assert ckpt("convert", source, tmp_path / "weights.safetensors", "--to=safetensors").code == 0
    done = ckpt("inspect", tmp_path / "weights.safetensors", "--verify")
    assert done.code == 2 and "--verify is for checkpoints of fcdp-run" in done.error


def test_a_bit_of_the_data(tmp_path, ckpt, source):
    file = source / FILE
    flip(file, file.stat().st_size * 8 - 3)
    done = ckpt("inspect", source, "--verify")
    assert done.code == 1 and f"{FILE}: expected data with the digest " in done.out
    assert ckpt("inspect", source.parent, "--verify").code == 1
    for command in (("convert", source, tmp_path / "out", "--to=dcp"), ("diff", source, source)):
        done = ckpt(*command)
        assert done.code == 2 and done.error.count("\n") == 1
        assert done.error.startswith(f"fcdp-ckpt: error: {file}: expected data with the digest ")
    assert not (tmp_path / "out").exists()


def test_any_bit_of_the_index_and_of_headers(ckpt, source):
    rng = random.Random(0)
    for name in ("index.json", FILE):
        good = (source / name).read_bytes()
        end = len(good) - 1 if name == "index.json" else 8 + int.from_bytes(good[:8], "little")
        for _ in range(150):
            flip(source / name, rng.randrange(end * 8))
            done = ckpt("inspect", source)
            assert done.code != 0, (source / name).read_bytes()
            (source / name).write_bytes(good)
    assert ckpt("inspect", source).code == 0


def test_a_file_of_another_step(tmp_path, ckpt, source):
    other = write(tmp_path / "other", model_states(2), world_size=2)
    assert ckpt("convert", other, tmp_path / "again", "--to=fcdp").code == 0
    shutil.copy(tmp_path / "again" / FILE, source / FILE)
    done = ckpt("inspect", source)
    assert done.code == 1 and "the file is damaged, or of another checkpoint" in done.out
    assert ckpt("convert", source, tmp_path / "out", "--to=hf").code == 2


def test_an_index_of_another_step(tmp_path, ckpt, source):
    shutil.copytree(source, tmp_path / "step-00000008")
    done = ckpt("inspect", tmp_path / "step-00000008")
    assert done.code == 2 and "expected step to be 8, as the folder's name says, found 7" in done.error
    shutil.copytree(source, tmp_path / "best")
    assert ckpt("inspect", tmp_path / "best").code == 0


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (lambda index: index.update(version=1), "expected digest to be nothing in version 1"),
        (lambda index: index["files"][0].pop("digest"), "expected files[0].digest to be a text, found nothing"),
        (lambda index: index["files"][0].update(digest="0" * 16), "expected one with the digest 0000000000000000"),
    ],
)
def test_an_index_with_its_digest_that_is_wrong(tmp_path, ckpt, source, edit, text):
    change(source, edit)
    done = ckpt("convert", source, tmp_path / "out", "--to=fcdp")
    assert done.code == 2 and text in done.error


def test_a_key_that_is_there_twice(ckpt, source):
    index = source / "index.json"
    text = index.read_text()
    text = text[: text.rindex(',\n "digest"')] + ', "step": 7}'
    index.write_text(seal(text))
    done = ckpt("inspect", source)
    assert done.code == 2 and 'the key "step" is there twice' in done.error


def test_only_the_blocks_that_are_read_are_compared(tmp_path, ckpt):
    """A file has several blocks. Blocks of states that are not read may be damaged."""
    states = [Made([name], "value", torch.randn(700_000)) for name in "ab"]
    old = write(tmp_path / "old", states)
    assert ckpt("convert", old, tmp_path / "new", "--to=fcdp").code == 0
    assert ckpt("inspect", tmp_path / "new", "--verify").code == 0
    file = tmp_path / "new" / "rank-00000-of-00001.safetensors"
    flip(file, file.stat().st_size * 8 - 1)
    done = ckpt("inspect", tmp_path / "new", "--verify")
    assert done.code == 1 and done.out.count("expected data with the digest ") == 1
    assert f"from byte {700_000 * 8 // BLOCK_BYTES * BLOCK_BYTES} on" in done.out
    assert ckpt("convert", tmp_path / "new", tmp_path / "out", "--to=hf").code == 2


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, 2 * BLOCK_BYTES + 5])
def test_digests_do_not_depend_on_how_data_comes(size):
    data = random.Random(size).randbytes(size)
    digester = BlockDigester()
    for at in range(0, size, 700_001):
        digester.add(memoryview(data)[at : at + 700_001])
    blocks = [data[at : at + BLOCK_BYTES] for at in range(0, size, BLOCK_BYTES)]
    assert digester.finish() == "".join(map(digest_of, blocks))
