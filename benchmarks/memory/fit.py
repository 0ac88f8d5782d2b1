#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicts which models fit which machines, with settings that save device memory: the table of docs/memory.md.

Each model is exported without weights, with one sequence of several lengths, and planned by fcdp-sim --fit on each
machine. Nothing is executed, and no GPU is needed.
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
    args = parser.parse_args()
    print("| model | method | machine | settings | longest sequence | device GiB | host GiB | tokens/s |")
    print("|---|---|---|---|--:|--:|--:|--:|")
    for model in args.models:
        for method in args.methods:
            with tempfile.TemporaryDirectory() as folder:
                archives = [export(Path(folder), MODELS[model], method, length) for length in args.sequences]
                for machine in args.machines:
                    for row in rows(archives, MACHINES[machine], METHODS[method], args):
                        print(f"| {model} | {method} | {machine} | {row} |", flush=True)


def rows(archives: list[Path], machine: Machine, options: list[str], args: argparse.Namespace) -> Iterator[str]:
    """A row for each setting: the longest sequence that fits, with the memory that it needs and its speed."""
    command = [SIM, *archives, f"--cluster={machine.cluster}", f"--nodes={machine.nodes}"]
    command += [f"--ranks-per-node={machine.ranks}", f"--strategy={args.strategy}", *options]
    command += [f"--fit={args.settings}" if args.settings else "--fit", "--json"]
    sweep = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["sweep"]
    settings = list(dict.fromkeys(point["options"] for point in sweep["points"]))
    for setting in settings:
        fitting = [point for point in sweep["points"] if point["options"] == setting and point.get("fits")]
        yield f"`{setting}` | " + (describe(max(fitting, key=lambda point: point["sequence"])) if fitting else "none | | |")


def describe(point: dict[str, Any]) -> str:
    memory = f"{point['device_bytes'] / GIB:.1f} | {point['host_bytes'] / GIB:.1f}"
    return f"{point['sequence']:,} | {memory} | {point['tokens_per_second']:,.0f}"


def export(folder: Path, model: Model, method: str, length: int) -> Path:
    """Exports in a process of its own, because tracing keeps memory."""
    archive = folder / f"{length}.pt2"
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
