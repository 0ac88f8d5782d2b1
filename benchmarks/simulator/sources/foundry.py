# SPDX-License-Identifier: Apache-2.0
"""MosaicML's table of FSDP runs of MPT (llm-foundry, scripts/train/benchmarking) on A100 and H100."""

from pathlib import Path

from gpt import Shape
from runs import Run, Source, preset, read_table

PRESETS = {"a100_40gb": "a100-40gb", "a100_80gb": "a100-80gb", "h100_80gb": "h100"}
# Width, heads and layers of MPT (llm-foundry, scripts/train/yamls/pretrain). Its loss is FlashAttention's fused kernel
# (modeling_mpt.py), on logits in bfloat16.
MODELS = {
    name: Shape(f"mpt-{name}-fusedloss", width, heads, layers, vocabulary=50368, fused_loss=True)
    for name, width, heads, layers in [
        ("125m", 768, 12, 12), ("350m", 1024, 16, 24), ("760m", 1536, 12, 24), ("1b", 2048, 16, 24),
        ("3b", 2560, 20, 32), ("7b", 4096, 32, 32), ("13b", 5120, 40, 40), ("30b", 7168, 56, 48), ("70b", 8192, 64, 80),
    ]
}  # fmt: skip
# Composer's mixed precision: DEFAULT reduces in float32, PURE in bfloat16.
REDUCTIONS = {"DEFAULT": "f32", "PURE": "bf16"}
# Shares of peak that FlashAttention in Triton reached in 2023, forward and backward together, causal, heads of 128
# (Dao, FlashAttention-2, arXiv 2307.08691, its benchmarks; on H100 that of FlashAttention in CUDA, times their ratio on
# A100). The forward pass runs at 1.4 times this rate, the backward pass at 0.9 times.
KEYS = (512, 1024, 2048, 4096, 8192, 16384)
ATTENTION = {
    "a100": (0.16, 0.195, 0.22, 0.237, 0.25, 0.256),
    "h100": (0.09, 0.108, 0.108, 0.124, 0.133, 0.134),
}


def load(folder: Path) -> Source:
    rows = read_table(folder, "llm_foundry_fsdp_benchmarks.csv")
    sharded = [row for row in rows if row["sharding"] == "FULL_SHARD"]
    wide = [row for row in sharded if row["precision"] != "amp_fp8"]
    return Source("foundry", [make_run(row) for row in wide],
                  [f"{len(rows) - len(sharded)} runs that are not FULL_SHARD",
                   f"{len(sharded) - len(wide)} runs with products in 8 bits"])  # fmt: skip


def make_run(row: dict[str, str]) -> Run:
    gpus = int(row["gpus"])
    return Run(
        name=f"{row['gpu']} {row['model']} {row['seqlen']} {gpus} GPUs, {row['gradaccum']} x {row['microbatch']}"
        f"{' checkpointed' if row['act_ckpt'] == 'True' else ''}",
        shape=MODELS[row["model"]],
        batch=int(row["microbatch"]),
        sequence=int(row["seqlen"]),
        nodes=max(1, gpus // 8),
        ranks=min(gpus, 8),
        cluster=preset(PRESETS[row["gpu"]], attention=describe_attention(row["gpu"])),
        program="fsdp1",
        options=("--strategy=zero3", "--collectives=flat", "--clip-norm=1",
                 f"--reduce-dtype={REDUCTIONS[row['mp_mode']]}",
                 f"--remat={'unit' if row['act_ckpt'] == 'True' else 'none'}"),  # fmt: skip
        micro_batches=int(row["gradaccum"]),
        rate=float(row["tok_per_s_gpu"]),
    )


def describe_attention(gpu: str) -> dict[str, list[list[float]]]:
    shares = ATTENTION[gpu.split("_")[0]]
    passes = {"forward": 1.4, "backward": 0.9}
    return {name: [[keys, factor * share] for keys, share in zip(KEYS, shares)] for name, factor in passes.items()}
