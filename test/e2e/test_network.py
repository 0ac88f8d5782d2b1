# SPDX-License-Identifier: Apache-2.0
"""The kernel's own count of what leaves each host agrees with fcdp-run's."""

import sys
from pathlib import Path

import pytest

from harness import ROOT, Config, Workshop, read_log, run_command

sys.path.insert(0, str(ROOT / "benchmarks" / "netns"))

from hosts import why_impossible  # noqa: E402
from run import run  # noqa: E402

STEPS = 16
# Measured over 1 to 64 steps without a limit on the link: what the kernel counts is the payload times 1.023 (zero3),
# 1.027 (fcdp) or 1.11 (coded, which has the same messages with fewer bytes), which is headers, acknowledgements and
# heartbeats, and 50 kB for the meeting of the ranks.
HEADERS = 1.15
MEETING = 70_000

# One process makes hosts at a time.
pytestmark = [
    pytest.mark.skipif(bool(why_impossible()), reason=str(why_impossible())),
    pytest.mark.xdist_group("hosts"),
]


CODED = Config("gpt_bf16", master="f32", optimizer="adamw,lr=1e-4", wire="delta", reduce_wire="coded")


@pytest.mark.parametrize("config", [Config("gpt", strategy="zero3"), Config("gpt"), CODED], ids=["zero3", "fcdp", "coded"])
def test_bytes_on_the_wire(workshop: Workshop, tmp_path: Path, config: Config) -> None:
    model = workshop.model(config.model)
    log = tmp_path / "log.jsonl"
    command = run_command(workshop.step(config), model.archive, model.inputs, STEPS, f"--json={log}")
    sent, _ = run([str(part) for part in command], config.nodes, config.local, megabits=None, timeout=120)
    steps = read_log(log)
    payload = sum(step["inter_bytes_sent"] for step in steps)
    assert [step["loss"] for step in steps[:4]] == workshop.run(config, 4).losses
    for count in sent:
        assert payload <= count <= payload * HEADERS + MEETING
