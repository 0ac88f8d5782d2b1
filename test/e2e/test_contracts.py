# SPDX-License-Identifier: Apache-2.0
"""A job for GPUs keeps the rules of CUDA and NCCL (test/contracts): on the emulated device, with the checker in front
of the libraries."""

from pathlib import Path

import pytest

from harness import BIN, Config, Workshop
from test_emulated_gpu import PROGRAM, SHUFFLED, assert_as_on_the_cpu

CHECKER = BIN.parent / "contracts/libfcdp_contracts.so"
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="fcdp is built without the CUDA backend, or with a libtorch for CUDA")


def read_counts(folder: Path) -> list[dict[str, int]]:
    lines = [file.read_text().split() for file in folder.glob("checked.*")]
    return [dict(zip(words[::2], map(int, words[1::2]))) for words in lines]


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (Config("gpt", micro_batches=2, clip_norm=0.5), ["--cuda-graphs=auto"]),
        (Config("gpt", micro_batches=2), ["--reductions-by=nccl"]),
    ],
    ids=["graphs", "reductions-by-nccl"],
)
def test_a_job_keeps_the_rules(workshop: Workshop, tmp_path: Path, config: Config, options: list[str]) -> None:
    folder = tmp_path / "contracts"
    folder.mkdir()
    variables = {"LD_PRELOAD": str(CHECKER), "FCDP_CONTRACTS_DIR": str(folder), "FCDP_CONTRACTS": "abort"}
    assert_as_on_the_cpu(workshop, config, tmp_path, SHUFFLED, *options, **variables)
    ranks = read_counts(folder)
    assert len(ranks) == config.world
    for counts in ranks:
        assert counts["collectives"] and counts["copies"] and counts["releases"] and not counts["violations"]
        assert bool(counts["captures"]) == ("--cuda-graphs=auto" in options)
