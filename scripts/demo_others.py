# SPDX-License-Identifier: Apache-2.0
"""The demonstration's second part: other numbers of ranks, and models that no one here wrote."""

import os
import warnings
from dataclasses import replace
from pathlib import Path

from closed_forms import buckets, traffic
from demo_example import Example
from demo_print import Check, Progress, print_table
from expectations import LIVE_RANGES, LOSS_TOLERANCE
from harness import Config, Run, Workshop, compile_command, read_plan, read_log, relative_error, run_command, tool

MESHES = [(1, 1), (1, 2), (2, 1), (3, 1), (1, 3), (3, 2)]
MESH_STEPS = 2
MODELS = {
    "hf_gpt2": "GPT-2 of Transformers, tied embeddings",
    "hf_llama": "Llama of Transformers, grouped queries",
    "peft_lora": "the same with LoRA of PEFT, the rest frozen",
    "gpt_bf16": "a GPT in bfloat16",
}
MODEL_STEPS = 3


def other_meshes(example: Example) -> list[Check]:
    """The example on other numbers of nodes and ranks."""
    rows, errors = [], []
    with Progress(f"train {MESH_STEPS} steps on {len(MESHES)} other meshes"):
        for nodes, local in MESHES:
            config = replace(example.config("fcdp"), nodes=nodes, local=local)
            step, log = example.folder / "mesh.so", example.folder / "mesh.jsonl"
            tool(*compile_command(config, example.archive, step))
            tool(*run_command(step, example.archive, example.inputs, MESH_STEPS, f"--json={log}"), timeout=1200)
            expected = example.reference(config.world, MESH_STEPS)
            losses = [entry["loss"] for entry in read_log(log)]
            errors.append(relative_error(losses, expected))
            rows.append((f"{nodes} x {local}", f"{expected[-1]:.8f}", f"{losses[-1]:.8f}", f"{errors[-1]:.1e}"))
    print(f"\nThe example on other meshes, strategy fcdp: the loss of step {MESH_STEPS}\n")
    print_table(("nodes x ranks", "PyTorch", "fcdp", "difference"), rows)
    print()
    return [
        Check(
            f"{len(MESHES)} other meshes, 1 to 6 ranks: losses are PyTorch's to 1e-05 relative",
            f"largest difference {max(errors):.1e}",
            max(errors) <= 1e-5,
        )
    ]


def other_models(folder: Path) -> list[Check]:
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    warnings.simplefilter("ignore", FutureWarning)
    workshop = Workshop(folder / "models")
    workshop.folder.mkdir(exist_ok=True)
    rows, checks = [], []
    for name, what in MODELS.items():
        with Progress(f"export {what}, train {MODEL_STEPS} steps with zero3 and fcdp"):
            configs = [Config(name, strategy=strategy) for strategy in ("zero3", "fcdp")]
            runs = [workshop.run(config, MODEL_STEPS) for config in configs]
            error = relative_error(runs[1].losses, workshop.reference(configs[1], MODEL_STEPS).losses)
        sent = [(run.traffic[0].inter, run.traffic[-1].inter) for run in runs]
        rows.append((name, f"{error:.1e}", *(f"{first:,} then {then:,}" for first, then in sent)))
        checks += model_checks(workshop, configs, runs, error)
    print("\nOther models on 2 x 2 ranks: bytes between nodes in the first step, and in each one after it\n")
    print_table(("model", "loss difference", "zero3", "fcdp"), rows)
    return checks


def model_checks(workshop: Workshop, configs: list[Config], runs: list[Run], error: float) -> list[Check]:
    name, tolerance = configs[0].model, LOSS_TOLERANCE[configs[0].model]
    equal = runs[0].losses == runs[1].losses and runs[0].parameters.read_bytes() == runs[1].parameters.read_bytes()
    plans = [read_plan(workshop.step(config)) for config in configs]
    counted = True
    for config, plan, run in zip(configs, plans, runs):
        once, each = traffic(plan, config.strategy, LIVE_RANGES[name])
        counted = counted and run.traffic == [once + each] + [each] * (MODEL_STEPS - 1)
    checks = [
        Check(f"{name}: losses are PyTorch's to {tolerance:.0e} relative", f"{error:.1e}", error <= tolerance),
        Check(f"{name}: zero3 and fcdp equal bit for bit, bytes as the closed forms", "", equal and counted),
    ]
    if name == "peft_lora":
        trained = sum(bucket.gather_bytes for bucket in buckets(plans[1]) if bucket.trainable)
        sent = runs[1].traffic[-1].inter
        # 2 A W of what is trained; A is one half on two nodes.
        checks.append(Check(f"{name}: from step 2 on only what is trained crosses", f"{sent:,} bytes", sent <= trained))
    return checks
