# SPDX-License-Identifier: Apache-2.0
"""Batches that would train wrongly in silence are refused or reported: masks that are not full, unequal sizes, updates
that are lost."""

from pathlib import Path

from harness import environment
from python_ranks import run_ranks


def test_batches_of_a_loop(tmp_path: Path) -> None:
    (rank,) = run_ranks(Path(__file__).with_name("refused_batches_script.py"), [tmp_path], [environment()])
    holed, whole, positions, equal, rows, lost, masters = rank.out.splitlines()
    assert whole == "loss"
    assert holed.startswith("input mismatch: ") and "input 'attention_mask' of batch 0: element 6 is 0," in holed
    expected = "got size 4 of dimension 1 of input 'ids', and size 3 of dimension 1 of input 'position_ids'"
    assert positions.startswith("input mismatch: ") and expected in positions
    assert equal.startswith("loss")
    assert "size 1 of dimension 0 of input 'ids', and size 2 of dimension 0 of input 'position_ids'" in rows
    # Each element of the weight of the norm, and some of the matrix.
    assert lost.startswith("an update of the learning rate 1e-05 does not change ") and "of 28)" in lost
    assert masters == "no word"
