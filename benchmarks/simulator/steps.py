# SPDX-License-Identifier: Apache-2.0
"""Makes training steps of decoder-only transformers with the shapes of published runs, as text for fcdp-sim.

A model is exported once, under FakeTensorMode, with a batch and a sequence length that are primes and divide none of
the model's sizes. So every number in the text that is divisible by them has them as factors, and replacing these
factors gives the step of another batch and sequence length.
"""

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Protocol

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import fcdp

BATCH, SEQUENCE = 131, 1031


class Shape(Protocol):
    """The shape of a model."""

    name: str
    """Names the exported step in the cache, so it tells all that the step depends on."""
    dtype: torch.dtype
    """Type of the parameters."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes that neither BATCH nor SEQUENCE may divide."""

    def make(self, sequence: int) -> nn.Module:
        """Makes the model, which maps token ids and labels, both [batch, sequence], to a loss."""


def get_divisors(shape: Shape) -> tuple[int, int]:
    """Returns by which numbers the step divides batch and sequence.

    It is exported with as many times BATCH and SEQUENCE.
    """
    return getattr(shape, "divided", (1, 1))


def make_model(shape: Shape) -> nn.Module:
    """Makes the model without memory for its parameters."""
    with torch.device("meta"):
        return shape.make(1)


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def count_parameters(shape: Shape) -> int:
    return count(make_model(shape))


def export(shape: Shape, batch: int, sequence: int, tools: Path) -> str:
    """Returns the step as text."""
    torch.set_default_dtype(shape.dtype)
    with FakeTensorMode():
        model = shape.make(sequence)
    torch.set_default_dtype(torch.float32)
    ids = torch.zeros(batch, sequence, dtype=torch.int64)
    with tempfile.TemporaryDirectory() as folder:
        archive, text = Path(folder) / f"{shape.name}.pt2", Path(folder) / "step.mlir"
        fcdp.export(model, (ids, ids.clone()), archive, check=False)
        subprocess.run([tools / "fcdp-translate", "--import-pt2", archive, "-o", text], check=True)
        return text.read_text()


class Steps:
    """The steps of all shapes. Exported steps are kept in `cache` by name."""

    def __init__(self, cache: Path, tools: Path) -> None:
        self.cache, self.tools = cache, tools
        cache.mkdir(parents=True, exist_ok=True)

    def write(self, shape: Shape, batch: int, sequence: int, path: Path) -> None:
        parts, rests = zip(*(divmod(size, by) for size, by in zip((batch, sequence), get_divisors(shape))))
        if any(rests):
            raise ValueError(f"{shape.name}: expected a batch and a sequence that {get_divisors(shape)} divide, "
                             f"got {batch} and {sequence}")  # fmt: skip
        path.write_text(reshape(self._load(shape), *parts))

    def _load(self, shape: Shape) -> str:
        for size in shape.sizes:
            if size and (size % BATCH == 0 or size % SEQUENCE == 0):
                raise ValueError(f"{shape.name}: expected sizes that neither {BATCH} nor {SEQUENCE} divides, got {size}")
        path = self.cache / f"{shape.name}.mlir"
        if not path.exists():
            print(f"exporting {shape.name}", flush=True)
            batches, sequences = get_divisors(shape)
            text = export(shape, batches * BATCH, sequences * SEQUENCE, self.tools)
            part = path.with_suffix(".part")
            part.write_text(text)
            part.rename(path)
        return path.read_text()


# Matches sizes in types and integer arguments, but not the numbers of values, lines and locations.
SIZES = re.compile(r"(?<=tensor<)(?:\d+x)+")
ARGUMENTS = re.compile(r"(?<=[\[ ])\d+(?=[,\])])")


def reshape(text: str, batch: int, sequence: int) -> str:
    """Converts the text of a step of BATCH and SEQUENCE to one of `batch` and `sequence`, divided as the export's."""

    def replace(number: str) -> str:
        value = int(number)
        for prime, size in ((BATCH, batch), (SEQUENCE, sequence)):
            if value and value % prime == 0:
                value = value // prime * size
        return str(value)

    text = SIZES.sub(lambda match: re.sub(r"\d+", lambda digits: replace(digits[0]), match[0]), text)
    return ARGUMENTS.sub(lambda match: replace(match[0]), text)
