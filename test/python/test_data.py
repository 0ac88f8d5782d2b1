# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch

import fcdp
from fcdp.data import DataOptions, DataOrder, Permutation, row_index


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


def test_permutations_have_each_element_once():
    for size in (*range(1, 70), 1000):
        assert sorted(Permutation(size, 7, 0, size)) == list(range(size))
    with pytest.raises(IndexError):
        Permutation(4, 1, 0, 0)[4]


def test_permutations_are_those_of_fcdp_run():
    """test/runtime/session/DataOrderTest.cpp has the same values."""
    assert list(Permutation(10, 7, 0, 0)) == [3, 5, 6, 2, 9, 1, 4, 8, 7, 0]
    assert list(Permutation(10, 7, 0, 1)) == [0, 2, 8, 9, 6, 7, 4, 3, 5, 1]
    assert list(Permutation(10, 7, 1, 0)) == [9, 2, 8, 7, 0, 5, 6, 1, 4, 3]
    large = Permutation(10**12, 2**64 - 1, 3, 2**40)
    assert (large[0], large[10**12 - 1]) == (562034777806, 378917295740)
    assert Permutation(2**62, 1, 0, 0)[1] == 2395820993371128227


def test_each_epoch_is_another_permutation():
    order = DataOrder(DataOptions.parse("shuffle=3"), [9])
    epochs = [[order[9 * epoch + i][1] for i in range(9)] for epoch in range(4)]
    assert all(sorted(rows) == list(range(9)) for rows in epochs)
    assert len({tuple(rows) for rows in epochs}) == 4


def test_ranks_and_micro_batches_share_the_order_of_shuffled_rows(tmp_path):
    text = write_tokens(tmp_path / "tokens.u16", 25)
    sources = {"ids": fcdp.open_input(text, (2,)), "labels": fcdp.open_input(f"{text}+1", (2,))}

    def read(world, micro_batches, steps):
        step_inputs = fcdp.batches(sources, world, micro_batches, data="shuffle=5")
        return [batch for step in range(steps) for batch in step_inputs(step)]

    one, other = read(2, 3, 2), read(6, 1, 2)
    assert [batch["ids"].tolist() for batch in one] == [batch["ids"].tolist() for batch in other]
    assert all(torch.equal(batch["labels"], batch["ids"] + 1) for batch in one)
    assert sorted(batch["ids"][0].item() for batch in one) == list(range(0, 24, 2))


@pytest.mark.parametrize("text", ["shuffle=", "shuffle=-1", "shuffle=x", f"shuffle={2**64}", "shuffle", "shuffle=\u0663"])
def test_seeds_that_are_none(text):
    with pytest.raises(ValueError, match="data: shuffle: expected a seed"):
        DataOptions.parse(text)


def test_unknown_and_repeated_data_options():
    with pytest.raises(ValueError, match="data: expected shuffle=SEED, weights=W:W..., .* got 'seed'"):
        DataOptions.parse("seed=1")
    with pytest.raises(ValueError, match="given twice"):
        DataOptions.parse("shuffle=1,shuffle=1")


def test_weights_are_exact_in_each_period():
    order = DataOrder(DataOptions.parse("shuffle=3,weights=0.5:0.2:0.3"), [5, 3, 4])
    places = [order[position] for position in range(60)]
    for period in range(6):
        files = [file for file, _ in places[10 * period : 10 * period + 10]]
        assert [files.count(file) for file in range(3)] == [5, 2, 3]
    assert all(places.count((0, row)) == 6 for row in range(5))
    assert all(places.count((1, row)) == 4 for row in range(3))


def test_mixtures_are_those_of_fcdp_run():
    """test/runtime/session/DataOrderTest.cpp has the same values."""
    order = DataOrder(DataOptions.parse("shuffle=7,weights=3:1"), [5, 2])
    assert [order[position] for position in range(8)] == [(0, 3), (0, 1), (1, 1), (0, 4), (0, 2), (0, 0), (1, 0), (0, 0)]


def test_files_without_weights_are_one_series():
    order = DataOrder(DataOptions.parse("shuffle=3"), [5, 3, 4])
    epoch = [order[position] for position in range(12, 24)]
    assert sorted(epoch) == [(file, row) for file, rows in enumerate([5, 3, 4]) for row in range(rows)]
    assert [DataOrder(DataOptions(), [2, 1])[position] for position in range(4)] == [(0, 0), (0, 1), (1, 0), (0, 0)]


def test_lists_of_files(tmp_path):
    one, two = write_tokens(tmp_path / "a", 5), write_tokens(tmp_path / "b,c", 3)
    sources = {
        "ids": fcdp.open_input(f"{one},{two}", (1,)),
        "labels": fcdp.open_input(f"{one}+1,{two}+1", (1,)),
    }
    assert len(sources["ids"]) == 8 and sources["ids"][6].item() == 1
    step_inputs = fcdp.batches(sources, world=8, data="weights=3:1")
    assert [batch["ids"].item() for batch in step_inputs(0)] == [0, 1, 0, 2, 3, 0, 1, 1]
    assert all(torch.equal(batch["labels"], batch["ids"] + 1) for batch in step_inputs(0))
    with pytest.raises(ValueError, match="expected as many files for each input"):
        fcdp.batches({**sources, "labels": fcdp.open_input(f"{one}+1", (1,))})
    with pytest.raises(ValueError, match="weights: expected 2, one for each file of an input, got 3"):
        fcdp.batches(sources, data="weights=1:2:3")


@pytest.mark.parametrize("text", ["", "0", "1:0", "1:", "1::2", "-1", "1.", ".5", "1e3", "1.0000001", "1234567890", "a"])
def test_weights_that_are_none(text):
    with pytest.raises(ValueError, match="data: weights: expected positive numbers"):
        DataOptions.parse(f"weights={text}")


def test_weights_with_a_long_period():
    with pytest.raises(ValueError, match="a sum of at most 100000 .* not 1000001"):
        DataOptions.parse("weights=0.000001:1")
    assert DataOptions.parse("weights=0.5:0.25:1").weights == (2, 1, 4)


@pytest.mark.parametrize("order", ["", ",shuffle=3", ",weights=2:1,shuffle=3"])
def test_training_never_reads_held_out_rows(order):
    train = DataOrder(DataOptions.parse(f"validation=0.25{order}"), [10, 7])
    validation = DataOrder(DataOptions.parse(f"validation=0.25{order},split=validation"), [10, 7])
    trained, validated = ({split[position] for position in range(200)} for split in (train, validation))
    assert validated == {(0, 7), (0, 8), (0, 9), (1, 5), (1, 6)}
    assert len(trained) == 12 and not trained & validated


@pytest.mark.parametrize("text", ["", "0", "1", "1.5", "-0.1", "10%", "0.0000001"])
def test_fractions_that_are_none(text):
    with pytest.raises(ValueError, match="data: validation: expected a number between 0 and 1"):
        DataOptions.parse(f"validation={text}")


def test_splits_that_are_none():
    with pytest.raises(ValueError, match="data: split: expected train or validation, got 'test'"):
        DataOptions.parse("split=test")
    with pytest.raises(ValueError, match="split=validation: expected validation=FRACTION, too"):
        DataOptions.parse("split=validation")
    for text, got in (("validation=0.01", "got 0 of 40 rows"), ("validation=0.999", "got 100 of 100 rows")):
        with pytest.raises(ValueError, match=got):
            DataOrder(DataOptions.parse(text), [100, 40])
