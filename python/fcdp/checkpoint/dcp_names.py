# SPDX-License-Identifier: Apache-2.0
"""Names in PyTorch's distributed checkpoints.

A script saves {"model": get_model_state_dict(...), "optim": get_optimizer_state_dict(...)}, which PyTorch flattens:
model.NAME, optim.state.NAME.exp_avg, optim.state.NAME.step. States that PyTorch has no name for are below "fcdp".
"""

from dataclasses import dataclass

from fcdp.checkpoint.state import OPTIMIZER_ROLES, State

KeyPath = tuple[str | int, ...]

INDEX: KeyPath = ("fcdp", "index")
STEP = "step"


@dataclass(frozen=True)
class Prefixes:
    """The keys of model and optimizer in the saved dictionary, with dots between nested ones. The model's may be ""."""

    model: str = "model"
    optimizer: str = "optim"

    def model_path(self, name: str) -> KeyPath:
        return (*filter(None, self.model.split(".")), name)

    def optimizer_path(self, name: str, kind: str) -> KeyPath:
        return (*filter(None, self.optimizer.split(".")), "state", name, kind)

    def group_path(self, *path: str | int) -> KeyPath:
        return (*filter(None, self.optimizer.split(".")), "param_groups", *path)


def key_of(path: KeyPath) -> str:
    """Returns the flat name, as PyTorch makes it."""
    return ".".join(map(str, path))


def path_of(state: State, prefixes: Prefixes) -> KeyPath:
    """Returns where a state is stored: of a state that each rank or node has, PyTorch gets the first."""
    if state.role in OPTIMIZER_ROLES:
        return prefixes.optimizer_path(state.name, state.role)
    if state.is_model and not state.owner:
        return prefixes.model_path(state.name)
    if state.node is not None:
        return ("fcdp", "node", str(state.node), state.role, state.name)
    rank = () if state.rank is None else ("rank", str(state.rank))
    return ("fcdp", *rank, state.role, state.name)
