#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the tables of docs/gpus.md from the figures in measured/h200.json, which scripts/gpu has measured on a GPU."""

import json
from pathlib import Path

MEASURED = Path(__file__).resolve().parent / "measured/h200.json"
MODELS = {
    "gpt2": "GPT-2, 0.12 billion parameters",
    "llama-100m": "Llama, 0.13 billion",
    "llama-400m": "Llama, 0.4 billion",
    "llama": "Llama, 1.1 billion",
    "llama-flash": "the same with flash attention (`--compute-capability=8.0`)",
    "llama-3b": "Llama, 3.4 billion",
}


def steps(measured: dict) -> list[str]:
    lines = ["| model | tokens | fcdp | with CUDA graphs | eager PyTorch | peak memory | eager's |", "|---|---|---|---|---|---|---|"]
    for row in measured["steps"]:
        times = [f"{row[way] * 1e3:.1f} ms" if way in row else "not measured" for way in ("fcdp", "fcdp, CUDA graphs", "eager")]
        peaks = [f"{row[key] / 1e9:.1f} GB" if key in row else "not measured" for key in ("peak_bytes", "eager_peak_bytes")]
        lines.append(f"| {MODELS[row['step']]} | {row['tokens']:,} | {' | '.join([*times, *peaks])} |")
    return lines


def beside(measured: dict) -> list[str]:
    ways = {"fcdp, CUDA graphs": "fcdp with CUDA graphs", "eager": "eager PyTorch", "fsdp2": "FSDP2, one rank", "compiled": "`torch.compile`"}
    lines = [f"| model | {' | '.join(ways.values())} | peak memory of fcdp, eager, compiled |", "|" + "---|" * (len(ways) + 2)]
    for row in measured["beside"]:
        times = [f"{row[way] * 1e3:.1f} ms" if way in row else "not measured" for way in ways]
        peaks = [f"{row[key] / 1e9:.1f}" for key in ("graphs_peak_bytes", "eager_peak_bytes", "compiled_peak_bytes") if key in row]
        lines.append(f"| {MODELS[row['step']]} | {' | '.join(times)} | {', '.join(peaks)} GB |")
    return lines


def spell(name: str, value: float) -> str:
    if "seconds" in name or name == "in_graph":
        return f"{value * 1e6:,.3g} us" if value < 1e-3 else f"{value * 1e3:,.3g} ms" if value < 1 else f"{value:.3g} s"
    unit = "FLOP/s" if name == "flops" else "B/s"
    return f"{value / 1e12:,.3g} T{unit}" if value >= 1e12 else f"{value / 1e9:,.3g} G{unit}"


WORDS = {
    "seconds": "",
    "flops": "",
    "bytes_per_s": "",
    "in_graph": " in a graph",
    "forward_seconds": " forward",
    "backward_seconds": " backward",
    "host_seconds": " of the host",
    "zeroing_seconds": " to zero it before",
}


def operations(measured: dict) -> list[str]:
    lines = ["| operation | measured |", "|---|---|"]
    for row in measured["operations"]:
        values = [spell(key, value) + WORDS[key] for key, value in row.items() if key in WORDS]
        lines.append(f"| {row['name'].replace('torch.', '').replace('_ATTENTION', '')} | {', '.join(values)} |")
    return lines


if __name__ == "__main__":
    measured = json.loads(MEASURED.read_text())
    print("\n".join([*steps(measured), "", *beside(measured), "", *operations(measured)]))
