# SPDX-License-Identifier: Apache-2.0
"""The memory of a GPU as published runs count it: a plan's bytes, and what a program needs besides."""

from typing import Any

from runs import Run

# Share of what PyTorch's allocator reserves that no tensor uses: the mean over eight models of GMLake (arXiv
# 2401.08156), whose stitched blocks leave next to nothing of it. It names sharding, recomputation and low-rank
# adaptation as the causes, so steps without any of these have none.
FRAGMENTATION = 0.15
# The parts in each count: torch.cuda.max_memory_allocated, torch.cuda.max_memory_reserved, or all memory that the
# driver knows of, as nvidia-smi prints it.
PARTS = ("planned", "kept by the program", "workspace", "allocator", "communicators", "context")
COUNTS = {"allocated": PARTS[:3], "reserved": PARTS[:4], "device": PARTS}


def fragments(run: Run) -> bool:
    """Returns whether what the run asks of PyTorch's allocator leaves memory between blocks that nothing fits into."""
    whole = "--strategy=ddp" in run.options or "--strategy=zero1" in run.options
    keeps_all = not any(option.startswith("--remat=") for option in run.options) or "--remat=none" in run.options
    return run.program != "graphs" and not (whole and keeps_all and not getattr(run.shape, "lora", 0))


def divide(run: Run, step: dict[str, Any]) -> dict[str, float]:
    """Returns the bytes of each of PARTS.

    Libraries take their workspaces from PyTorch's allocator, so what it reserves without use is a share of these, too.
    If the program needs more in its update than the whole step in the plan, that is its peak.
    """
    reserved = {"workspace": 0, "communicators": 0, "context": 0, **step["device_memory"]["reserved"]}
    planned = float(step["device_memory"]["bytes"])
    written_over = run.in_place.get(step["device_memory"].get("at", {}).get("operation", ""), 0)
    kept = max(run.kept - written_over, run.updating - planned)
    allocated = planned + kept + reserved["workspace"]
    held = allocated * FRAGMENTATION / (1 - FRAGMENTATION) if fragments(run) else 0.0
    return dict(zip(PARTS, (planned, kept, reserved["workspace"], held, reserved["communicators"], reserved["context"])))


def count(run: Run, step: dict[str, Any]) -> dict[str, float]:
    """Returns the parts that the source of the run counts."""
    parts = divide(run, step)
    return {part: parts[part] for part in COUNTS[run.counted]}
