# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch

import fcdp
from fcdp.data import row_index


def write_tokens(path, count):
    np.arange(count, dtype="<u2").tofile(path)
    return f"{path}:u16"


def test_windows_are_consecutive_and_shift(tmp_path):
    text = write_tokens(tmp_path / "tokens.u16", 25)
    ids, labels = fcdp.open_input(text, (2, 4)), fcdp.open_input(f"{text}+1", (2, 4))
    assert len(ids) == 3 and len(labels) == 3
    assert ids[1].tolist() == [[8, 9, 10, 11], [12, 13, 14, 15]]
    assert torch.equal(labels[1], ids[1] + 1)
    assert ids[0].dtype == torch.int64


def test_inputs_use_the_smallest_number_of_rows(tmp_path):
    text = write_tokens(tmp_path / "tokens.u16", 24)
    sources = {"ids": fcdp.open_input(text, (8,)), "labels": fcdp.open_input(f"{text}+1", (8,))}
    assert [len(rows) for rows in sources.values()] == [3, 2]
    batches = fcdp.batches(sources, world=3)(0)
    assert [batch["ids"][0].item() for batch in batches] == [0, 8, 0]
    assert all(torch.equal(batch["labels"], batch["ids"] + 1) for batch in batches)


def test_rows_go_round(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(7, dtype=np.float32).reshape(7, 1))
    batches = fcdp.batches_from_npy({"x": tmp_path / "x.npy"}, world=2, micro_batches=2)
    assert [batch["x"].item() for batch in batches(0)] == [0, 1, 2, 3]
    assert [batch["x"].item() for batch in batches(1)] == [4, 5, 6, 0]
    assert row_index(1, 1, 1, micro_batches=2, world=2, rows=7) == 0


def test_files_that_are_too_short(tmp_path):
    text = write_tokens(tmp_path / "tokens.u16", 8)
    with pytest.raises(ValueError, match="at least 9 tokens for one batch, got 8"):
        fcdp.open_input(f"{text}+1", (2, 4))
    with pytest.raises(ValueError, match="token type among"):
        fcdp.open_input(f"{tmp_path}/tokens.u16:f32", (2, 4))
