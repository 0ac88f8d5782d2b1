#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicts which models fit which machines, with settings that save device memory: the tables of docs/memory.md.

Each model is exported without weights, with one sequence of several lengths, and planned by fcdp-sim --fit on each
machine. Nothing is executed, and no GPU is needed. Prints a row for each setting, or with --grid a row for each model
and method, whose cells are machines.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SIM = ROOT / "build/bin/fcdp-sim"
GIB = 2**30


@dataclass(frozen=True)
class Model:
    """Shapes from the configurations that the models' authors published with the weights."""

    family: str
    width: int
    inner: int
    layers: int
    heads: int
    key_heads: int
    vocabulary: int


MODELS = {
    "Llama 3.1 8B": Model("llama", 4096, 14336, 32, 32, 8, 128256),
    "Qwen 2.5 14B": Model("qwen2", 5120, 13824, 48, 40, 8, 152064),
    "Qwen 2.5 32B": Model("qwen2", 5120, 27648, 64, 40, 8, 152064),
    "Llama 3.1 70B": Model("llama", 8192, 28672, 80, 64, 8, 128256),
}


@dataclass(frozen=True)
class Machine:
    cluster: str
    nodes: int
    ranks: int


MACHINES = {
    "1 x RTX 3090": Machine("rtx3090", 1, 1),
    "2 x RTX 3090": Machine("rtx3090", 1, 2),
    "4 x RTX 3090": Machine("rtx3090", 1, 4),
    "8 x RTX 3090": Machine("rtx3090", 2, 4),
    "16 x RTX 3090": Machine("rtx3090", 4, 4),
    "4 x A40": Machine("a40-10gbe", 1, 4),
    "8 x A100 40 GB": Machine("a100-40gb", 1, 8),
    "2 x DGX Spark": Machine("spark", 2, 1),
}

# Masters in f32, or adapters beside a frozen base.
METHODS = {"full": ["--master=f32"], "LoRA": []}

# Settings of the rows of a grid.
SAVING = "remat=unit+loss-chunk=auto"
GRIDS = {
    "full": {
        "full, states on devices": SAVING,
        "full, states on hosts": f"{SAVING}+states=host",
        "full, `auto`": f"{SAVING}+states=auto+activations=auto",
    },
    "LoRA": {"LoRA": SAVING, "LoRA on `nf4`": f"{SAVING}+frozen=nf4"},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog='example: .venv/bin/python benchmarks/memory/fit.py --models "Llama 3.1 8B" --machines "8 x RTX 3090"',
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), metavar="MODEL")
    parser.add_argument("--machines", nargs="+", choices=MACHINES, default=list(MACHINES), metavar="MACHINE")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD")
    parser.add_argument("--sequences", type=int, nargs="+", default=[2048, 8192, 32768], metavar="TOKENS")
    parser.add_argument("--settings", default="", help="settings of --fit (default: those of fcdp-sim)")
    parser.add_argument("--strategy", default="auto")
    parser.add_argument("--grid", action="store_true", help="print a table of models and machines, with the settings of its rows")
    parser.add_argument("--archives", type=Path, metavar="FOLDER", help="keep exports, and take those that are there")
    args = parser.parse_args()
    if args.grid:
        print_grid(args)
    else:
        print_rows(args)


def print_rows(args: argparse.Namespace) -> None:
    print("| model | method | machine | settings | longest sequence | device GiB | host GiB | tokens/s |")
    print("|---|---|---|---|--:|--:|--:|--:|")
    for model, method, archives in exports(args):
        for machine in args.machines:
            for setting, point in best_points(archives, machine, method, args.settings, args.strategy).items():
                columns = " | ".join(describe(point)) if point else "none | | |"
                print(f"| {model} | {method} | {machine} | `{setting}` | {columns} |", flush=True)


def print_grid(args: argparse.Namespace) -> None:
    print(f"| model | method | {' | '.join(args.machines)} |")
    print("|---|---" + "|---" * len(args.machines) + "|")
    for model, method, archives in exports(args):
        names = GRIDS[method]
        by_machine = [best_points(archives, machine, method, ",".join(names.values()), args.strategy) for machine in args.machines]
        for name, setting in names.items():
            cells = [spell_cell(points[setting]) for points in by_machine]
            print(f"| {model} | {name} | {' | '.join(cells)} |", flush=True)


def exports(args: argparse.Namespace) -> Iterator[tuple[str, str, list[Path]]]:
    for model in args.models:
        for method in args.methods:
            with tempfile.TemporaryDirectory() as made:
                folder = args.archives / model / method if args.archives else Path(made)
                folder.mkdir(parents=True, exist_ok=True)
                yield model, method, [export(folder, MODELS[model], method, length) for length in args.sequences]


def best_points(archives: list[Path], machine: str, method: str, settings: str, strategy: str) -> dict[str, dict[str, Any] | None]:
    """Returns by setting the plan of the longest sequence that fits, if any does."""
    of = MACHINES[machine]
    command = [SIM, *archives, f"--cluster={of.cluster}", f"--nodes={of.nodes}", f"--ranks-per-node={of.ranks}"]
    command += [f"--strategy={strategy}", *METHODS[method], f"--fit={settings}" if settings else "--fit", "--json"]
    sweep = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["sweep"]
    best: dict[str, dict[str, Any] | None] = {}
    for point in sweep["points"]:
        longest = best.setdefault(point["options"], None)
        if point.get("fits") and (not longest or point["sequence"] > longest["sequence"]):
            best[point["options"]] = point
    return best


def describe(point: dict[str, Any]) -> list[str]:
    """Returns tokens, GiB of a device, GiB of a node's host, and tokens per second."""
    memory = [f"{point[key] / GIB:.1f}" for key in ("device_bytes", "host_bytes")]
    return [f"{point['sequence']:,}", *memory, f"{point['tokens_per_second']:,.0f}"]


def spell_cell(point: dict[str, Any] | None) -> str:
    if not point:
        return "no"
    tokens, device, host, speed = describe(point)
    return f"{tokens}: {device} + {host}, {speed}"


def export(folder: Path, model: Model, method: str, length: int) -> Path:
    """Exports in a process of its own, because tracing keeps memory."""
    archive = folder / f"{length}.pt2"
    if archive.exists():
        return archive
    child = os.fork()
    if child == 0:
        status = 1
        try:
            write_archive(archive, model, method, length)
            status = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(f"expected an export of {length} tokens")
    return archive


def write_archive(archive: Path, model: Model, method: str, length: int) -> None:
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    warnings.simplefilter("ignore")
    import torch

    import fcdp

    torch.set_default_dtype(torch.bfloat16)
    with fcdp.empty_weights():
        network = make_network(model, method, length)

    ids = torch.zeros(1, length, dtype=torch.int64)
    fcdp.export(network, {"input_ids": ids, "labels": ids.clone()}, archive, check=False)


def make_network(model: Model, method: str, length: int) -> Any:
    import transformers

    settings = {
        "hidden_size": model.width,
        "intermediate_size": model.inner,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.key_heads,
        "vocab_size": model.vocabulary,
        "max_position_embeddings": length,
        "use_cache": False,
    }
    if model.family == "llama":
        network = transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings))
    else:
        network = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**settings))
    if method == "full":
        return network
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    return get_peft_model(network, config, autocast_adapter_dtype=False)


if __name__ == "__main__":
    main()
