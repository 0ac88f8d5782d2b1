# SPDX-License-Identifier: Apache-2.0
"""Refuses models whose backward pass changes buffers, as one does that runs a batch norm again for
torch.utils.checkpoint.

An archive has each operation of a checkpointed region once, so that it would change such a buffer once.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fcdp.errors import ExportError
from fcdp.torch_private import arguments_by_name, buffer_table, count_writes, is_fake, operator_name, watched_calls


@contextlib.contextmanager
def buffers_kept(model: nn.Module) -> Iterator[None]:
    """Raises ExportError at its end if a buffer of the model was changed since its beginning, though it may have no
    value.
    """
    before = [
        _Buffer(f"{prefix}.{leaf}".strip("."), module, leaf, tensor, count_writes(tensor), tensor.detach().clone())
        for prefix, module in model.named_modules()
        for leaf, tensor in buffer_table(module).items()
        if tensor is not None
    ]
    updated: set[int] = set()

    def see(target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        updated.update(id(statistic) for statistic in _updated_statistics(target, args, kwargs))

    with watched_calls(see) if before else contextlib.nullcontext():
        yield
    changed = [buffer.name for buffer in before if id(buffer.tensor) in updated or buffer.is_changed()]
    if changed:
        others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise ExportError(
            f"the backward pass changes the buffer '{changed[0]}'{others}, as it runs a part of forward again "
            "(torch.utils.checkpoint), and a compiled step would change it once: leave the module out of the checkpoint (the "
            "compiler chooses by itself what it computes again), or put it in the mode of .eval()"
        )


@dataclass(frozen=True)
class _Buffer:
    name: str
    module: nn.Module
    leaf: str
    tensor: torch.Tensor
    writes: int
    value: torch.Tensor

    def is_changed(self) -> bool:
        """Returns whether the buffer is another tensor, or was written to. A kernel may write without counting; then
        values differ.
        """
        tensor = buffer_table(self.module).get(self.leaf)
        if tensor is not self.tensor or count_writes(tensor) != self.writes:
            return True
        return not is_fake(self.value) and not torch.equal(tensor.nan_to_num(), self.value.nan_to_num())


def _updated_statistics(target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Returns the running statistics that a batch norm updates, which its schema does not say."""
    name = operator_name(target)
    if "batch_norm" not in name or name.endswith("backward"):
        return []
    given = arguments_by_name(target, args, kwargs)
    found = [given.get("running_mean"), given.get("running_var")] if given.get("training", True) else []
    return [statistic for statistic in found if statistic is not None]
