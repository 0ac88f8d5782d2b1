# SPDX-License-Identifier: Apache-2.0
"""Batches of Transformers' models are padded to the lengths that a step is compiled for."""

from typing import Any

import pytest
import torch

from fcdp.errors import StepError
from fcdp.integrations.lengths import Lengths, shapes_of


def lengths(*sizes: Any, has_decoder: bool = False, main: str = "input_ids", **pad: float | None) -> Lengths:
    return Lengths(sizes, pad, token=9, main_input=main, has_decoder=has_decoder)


def batch(rows: int, length: int, **more: torch.Tensor) -> dict[str, torch.Tensor]:
    ids = torch.arange(rows * length).reshape(rows, length) + 10
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids, dtype=torch.bool), "labels": ids.clone(), **more}


def test_a_batch_is_padded_to_the_smallest_length() -> None:
    of_pairs = torch.ones(2, 1, 5, 5)
    made = lengths(4, 6, 8)
    short, middle, long = made.examples(batch(2, 5, token_type_ids=torch.ones(2, 5, dtype=torch.int64)))
    assert [one["input_ids"].shape[1] for one in (short, middle, long)] == [4, 6, 8]
    assert middle["input_ids"][0].tolist() == [10, 11, 12, 13, 14, 9] and middle["labels"][1, -1] == -100
    assert middle["attention_mask"][1].tolist() == [True] * 5 + [False] and middle["token_type_ids"][0, -1] == 0
    assert made.pad == {"input_ids": 9, "attention_mask": 0, "labels": -100, "token_type_ids": 0}
    for length, expected in ((3, 4), (4, 4), (7, 8)):
        assert made.fitted(batch(2, length))["labels"].shape == (2, expected)
    # An evaluation has rows of its own number, and constants.
    evaluated = made.longest({**batch(3, 2), "num_items_in_batch": torch.tensor(4.0), "flag": True})
    assert evaluated["input_ids"].shape == (3, 8) and evaluated["num_items_in_batch"] == 4 and evaluated["flag"] is True
    (padded,) = lengths(6).examples({**batch(2, 5), "attention_mask": of_pairs})
    assert padded["attention_mask"].shape == (2, 1, 6, 6) and padded["attention_mask"].sum() == 50


def test_a_long_example_is_cut_to_its_labels() -> None:
    """The loss of a window without labels would be NaN, and the export could not be compared with PyTorch."""
    given = batch(2, 6)
    given["labels"][:, :3] = -100
    (short, _) = lengths(2, 6).examples(given)
    assert short["input_ids"].tolist() == given["input_ids"][:, 3:5].tolist() and (short["labels"] >= 0).all()
    given = {"input_ids": given["input_ids"], "attention_mask": torch.tensor([[0, 0, 0, 0, 1, 1]] * 2)}
    assert lengths(2, 6).examples(given)[0]["attention_mask"].tolist() == [[1, 1]] * 2


def test_an_encoder_and_a_decoder_have_a_length_each() -> None:
    def pairs(length: int, labels: int) -> dict[str, torch.Tensor]:
        target = torch.ones(2, labels, dtype=torch.int64)
        return {**batch(2, length), "labels": target, "decoder_input_ids": target.clone()}

    made = lengths((4, 2), (8, 4), has_decoder=True)
    small, great = made.examples(pairs(3, 3))
    assert (small["input_ids"].shape[1], small["labels"].shape[1], great["decoder_input_ids"].shape[1]) == (4, 2, 4)
    fitted = made.fitted(pairs(3, 4))
    assert fitted["attention_mask"].shape == (2, 8) and fitted["decoder_input_ids"][0].tolist() == [1] * 4
    with pytest.raises(StepError, match="'labels' has rows of 5 elements, and the greatest of lengths is 4"):
        made.fitted(pairs(3, 5))


def test_inputs_without_a_length_stay() -> None:
    """Classes that are as many as elements of the first batch have no length if the user says so."""
    classes = torch.zeros(2, 4)
    made = lengths(4, 8, labels=None)
    made.examples({**batch(2, 4), "labels": classes})
    assert made.fitted({**batch(2, 6), "labels": classes})["labels"].shape == (2, 4)
    with pytest.raises(StepError, match=r"'labels': expected the shape of the first batch, \[2, 4\], got \[2, 6\]: the length of"):
        made.fitted({**batch(2, 6), "labels": torch.zeros(2, 6)})
    made = lengths(4, 8, weights=0)
    made.examples(batch(2, 4, weights=torch.ones(2, 4, 3)))
    assert made.fitted(batch(2, 6, weights=torch.ones(2, 6, 3)))["weights"].shape == (2, 8, 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (batch(1, 4), r"'input_ids': expected the shape of the first batch, \[2, length\], got \[1, 4\]: set dataloader_drop_last"),
        (batch(2, 9), "'input_ids' has rows of 9 elements, and the greatest of lengths is 8: add a greater one, or cut rows"),
        ({**batch(2, 4), "labels": batch(2, 3)["labels"]}, "'input_ids' and 'labels' have rows of 4 and 3 elements"),
    ],
)
def test_batches_that_do_not_fit(given: dict[str, torch.Tensor], message: str) -> None:
    made = lengths(4, 8)
    made.examples(batch(2, 5))
    for fit in (made.fitted, lambda one: made.fit(shapes_of(one))):
        with pytest.raises(StepError, match=message) as raised:
            fit(given)
        assert raised.value.code == "input mismatch"


def test_lengths_that_are_none() -> None:
    for sizes in ((8, 4), (4, 4)):
        with pytest.raises(StepError, match="lengths: expected numbers that grow, got"):
            lengths(*sizes)
    for sizes in ((0,), ("8",), ((4, 2),)):
        with pytest.raises(StepError, match="lengths: expected numbers of elements of a row, got"):
            lengths(*sizes)
    with pytest.raises(StepError, match="lengths: expected pairs of an encoder's and a decoder's length, got 4"):
        lengths(4, has_decoder=True)
    with pytest.raises(StepError, match="expected an input 'pixel_values' of rows and their elements, got the inputs 'input_ids'"):
        lengths(4, main="pixel_values").examples(batch(2, 4))
    with pytest.raises(StepError, match=r"lengths: 'weights' \[2, 4\] has the length of its row, 4: give pad=\{'weights': VALUE\}"):
        lengths(4, 8).examples(batch(2, 4, weights=torch.ones(2, 4)))
