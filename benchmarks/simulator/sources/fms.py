# SPDX-License-Identifier: Apache-2.0
"""IBM's fms-fsdp: Llama 2 under FSDP, compiled, on 128 A100 and 96 H100."""

from pathlib import Path

from runs import Run, Source, preset, read_table, with_network
from shapes import llama

PRESETS = {"A100-80GB": "a100-80gb", "H100-80GB": "h100"}
STRATEGIES = {"HSDP": "--strategy=hsdp", "FSDP": "--strategy=zero3"}


def load(folder: Path) -> Source:
    return Source("fms", [make_run(row) for row in read_table(folder, "fms_fsdp.csv")])


def make_run(row: dict[str, str]) -> Run:
    node = 0.96 * float(row["network"].split()[0]) * 1e9 / 8
    return Run(
        name=f"{row['gpu']} {row['model']} {row['sharding']} {row['nodes']} x 8",
        shape=llama(f"llama2-{row['model'].lower()}"),
        batch=int(row["micro_batch"]),
        sequence=int(row["seq"]),
        nodes=int(row["nodes"]),
        ranks=int(row["gpus_per_node"]),
        cluster=with_network(preset(PRESETS[row["gpu"]]), node, "node"),
        program="fsdp1-compiled",
        # Its policy of mixed precision reduces in bfloat16.
        options=(STRATEGIES[row["sharding"]], "--reduce-dtype=bf16", "--collectives=flat", "--clip-norm=1",
                 f"--remat={'none' if row['act_ckpt'] == 'none' else 'unit'}"),  # fmt: skip
        rate=float(row["tok_s_per_gpu"]),
    )
