# SPDX-License-Identifier: Apache-2.0
"""The steps that the benchmark runs, and the description that is stored beside their objects."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from model import GPT2, LLAMA_1B, LLAMA_3B, LLAMA_100M, LLAMA_400M, PACKED, Shape

OPTIMIZER = dict(lr=1e-4, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
COMPILED_OPTIMIZER = "adamw,lr=1e-4"  # other settings have PyTorch's defaults, as above
# Many operations whose kernels take little time.
SMALL = Shape(6, 16, 48, 2, 1, vocabulary=64, batch=1, time=8, dtype="float32")
EXACT = Shape(4, 128, 344, 4, 2, vocabulary=512, batch=4, time=64, dtype="float32")
# Two ranks share the GPU, so the model is smaller.
CACHED = replace(LLAMA_1B, layers=8, batch=2)


@dataclass(frozen=True)
class Step:
    name: str
    shape: Shape
    nodes: int = 1
    options: tuple[str, ...] = ()
    micro_batches: int = 1
    targets: tuple[str, ...] = ("cuda",)


# PyTorch takes cuDNN's attention on Hopper, which is not deterministic.
HOPPER = ("--compute-capability=9.0",)
STEPS = [
    Step("llama", LLAMA_1B, options=HOPPER),
    Step("llama-flash", LLAMA_1B),
    Step("gpt2", GPT2, options=HOPPER),
    Step("llama-100m", LLAMA_100M, options=HOPPER),
    Step("llama-400m", LLAMA_400M, options=HOPPER),
    Step("llama-3b", LLAMA_3B, options=HOPPER),
    Step("small", SMALL, options=("--clip-norm=1",)),
    Step("exact", EXACT, options=("--clip-norm=1",), targets=("cpu", "cuda")),
    # By the flash kernel over sequences, and under the mask, which is the only way for this GPU.
    Step("packed", PACKED),
    Step("packed-masked", PACKED, options=("--compute-capability=7.5",)),
    # Two ranks, with copies to the host and back.
    Step("checked", EXACT, nodes=2, options=("--strategy=fcdp", "--clip-norm=1"), micro_batches=2),
    # Both send the same bytes; only one copies to the host and back.
    Step("host", CACHED, nodes=2, options=("--strategy=fcdp",), micro_batches=4),
    Step("resident", CACHED, nodes=2, options=("--strategy=zero2",), micro_batches=4),
    # One has the optimizer's states and values for the backward pass in host memory.
    Step("kept", CACHED, micro_batches=4),
    Step("moved", CACHED, options=("--states=host", "--activations=host"), micro_batches=4),
    # One has them in files, from which threads read; another has the host update them.
    Step("filed", CACHED, options=("--states=file",), micro_batches=4),
    Step("updated", EXACT, options=("--states=host", "--update=host"), micro_batches=2, targets=("cpu", "cuda")),
    Step("rounded", EXACT, nodes=2, options=("--strategy=fcdp", "--reduce-wire=int8"), micro_batches=2, targets=("cpu", "cuda")),
]


REHEARSED = (LLAMA_1B, EXACT, CACHED, PACKED)


def tiny(step: Step) -> Step:
    """Returns the same step with a model that is small enough for a CPU."""
    shape = replace(step.shape, layers=2, width=32, intermediate=64, heads=4, key_value_heads=2, vocabulary=64, batch=2, time=16)
    return replace(step, shape=shape, targets=("cpu",))


@dataclass(frozen=True)
class Prepared:
    """A compiled step. Bytes are those of one rank's device."""

    name: str
    target: str
    object: str
    shape: Shape
    nodes: int
    micro_batches: int
    inputs: tuple[str, ...]
    operations: int
    planned_bytes: int


def save(path: Path, prepared: list[Prepared]) -> None:
    path.write_text(json.dumps([asdict(one) for one in prepared], indent=1))


def load(path: Path) -> list[Prepared]:
    return [
        Prepared(**(entry | {"shape": Shape(**entry["shape"]), "inputs": tuple(entry["inputs"])}))
        for entry in json.loads(path.read_text())
    ]
