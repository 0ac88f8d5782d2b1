# SPDX-License-Identifier: Apache-2.0
"""The contents of a checkpoint in any format: named states, read piece by piece."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from fcdp.checkpoint.dtypes import TORCH_TYPES, item_bytes
from fcdp.optimizer_records import SAVED_ROLES, STATE_ROLES

OPTIMIZER_ROLES = STATE_ROLES
OUTER_ROLE = "outer"  # The parameters that nodes which train by themselves have in common, in float32.
TRAINING_ROLES = SAVED_ROLES  # Only training needs these states.
ROLES = ("value", *TRAINING_ROLES, "buffer", "random")

# States are copied and compared by pieces of this size, so that the memory in use does not depend on their size.
CHUNK_BYTES = 16 << 20

Reader = Callable[[int, int], torch.Tensor]


def owner_suffix(rank: int | None, node: int | None) -> str:
    """Returns what follows the name of a state that a rank or a node has for itself."""
    if rank is not None:
        return f"#{rank}"
    return "" if node is None else f"#node{node}"


@dataclass(frozen=True)
class State:
    """A tensor of a checkpoint, wherever its bytes are."""

    names: tuple[str, ...]  # The first names the state, the others are tied to it.
    role: str
    dtype: str
    shape: tuple[int, ...]
    read: Reader = field(repr=False, compare=False)  # (offset, length) in elements of the row-major order.
    rank: int | None = None  # The rank, if each rank has its own state.
    updates: int | None = None
    trainable: bool | None = None
    persistent: bool | None = None
    node: int | None = None  # The node, if each node has its own state.
    packed: str | None = None  # How the bytes of a packed matrix are packed; none for values.

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def label(self) -> str:
        return f"{self.role}/{self.name}{owner_suffix(self.rank, self.node)}"

    @property
    def owner(self) -> int:
        """Returns the rank or the node that has the state, or 0 if all have it together."""
        return self.rank or self.node or 0

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * item_bytes(self.dtype)

    @property
    def is_model(self) -> bool:
        """Returns whether PyTorch's state_dict of the model has this state."""
        return self.role == "value" or (self.role == "buffer" and self.persistent is not False)

    def like(self, other: "State") -> "State":
        """Returns this state with the values of another one, converted to its type."""
        dtype = TORCH_TYPES[self.dtype]
        return replace(self, node=None, read=lambda offset, length: other.read(offset, length).to(dtype))

    def chunks(self, step: int = 0) -> Iterator[torch.Tensor]:
        """Yields the elements in order, as contiguous tensors of one dimension, of `step` elements if that is given."""
        step = step or max(1, CHUNK_BYTES // item_bytes(self.dtype))
        for offset in range(0, self.elements, step):
            yield self.read(offset, min(step, self.elements - offset)).contiguous()


@dataclass
class Checkpoint:
    """A checkpoint of any format. Its states are read when they are asked for."""

    path: Path
    format: str  # "fcdp", "safetensors" or "dcp".
    states: list[State]
    step: int | None = None  # Optimizer steps done; none if the format does not say.
    world_size: int = 1
    nodes: int = 1
    plan_hash: str = ""
    job: dict[str, Any] = field(default_factory=dict)
    files: list[tuple[str, int]] = field(default_factory=list)  # Names and bytes.
    problems: list[str] = field(default_factory=list)  # Pieces that are missing or damaged.
    ignored: list[str] = field(default_factory=list)  # Entries that are no state of a training step.
    # Reads all data, and yields what its digests say is damaged; none if the checkpoint has no digests.
    verify: Callable[[], Iterator[str]] | None = None

    scope: str = "all"  # Or "pytorch", states that PyTorch has names for, or "weights".

    def common(self) -> dict[str, State]:
        """Returns the parameters that nodes which train by themselves have in common, by name."""
        return {state.name: state for state in self.states if state.role == OUTER_ROLE}

    def can_hold(self, state: State) -> bool:
        """Returns whether a checkpoint of this kind has a place for such a state."""
        if self.scope == "all" or state.is_model:
            return True
        return self.scope == "pytorch" and state.role in OPTIMIZER_ROLES
