# SPDX-License-Identifier: Apache-2.0
"""Constants of programs that are not fcdp, for comparisons with their runs. None is fitted to training runs.

The thread that issues work takes these seconds for an operator, for a view, and for a collective with what a framework
does around it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    operator: float
    transfer: float
    view: float = 2e-6
    """A view takes no kernel but Python and the dispatcher (measured on a CPU, torch 2: 1 to 2 us)."""
    fusion: str = "none"


PROGRAMS = {
    # PyTorch run operator by operator: 12 to 15 us in the forward pass with its modules, 10 us in the backward pass,
    # which C++ runs. DDP reduces buckets of 25 MB from a hook.
    "eager": Program(operator=13e-6, transfer=40e-6),
    # Transformers and llm-foundry: 30 to 45 us for each kernel of profiles that are bound by the host.
    "transformers": Program(operator=30e-6, transfer=200e-6),
    # FSDP1 gathers a flat parameter: one cast, one collective, views and events.
    "fsdp1": Program(operator=13e-6, transfer=200e-6),
    "fsdp1-compiled": Program(operator=5e-6, transfer=200e-6, view=0, fusion="pointwise"),
    # FSDP2: 0.37 ms for the gather of a Llama layer (PyTorch, pull request 133369).
    "fsdp2": Program(operator=13e-6, transfer=370e-6),
    "fsdp2-compiled": Program(operator=5e-6, transfer=370e-6, view=0, fusion="pointwise"),
    # DeepSpeed runs hooks around each module: about 3 ms for a Llama layer and step, of two gathers and a reduction.
    # Assumed.
    "deepspeed": Program(operator=20e-6, transfer=1e-3),
    "deepspeed-compiled": Program(operator=10e-6, transfer=1e-3, view=0, fusion="pointwise"),
    # An engine of its own in C++ that replays CUDA graphs.
    "graphs": Program(operator=1.5e-6, transfer=10e-6, view=0, fusion="pointwise"),
}
