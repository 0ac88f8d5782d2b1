# SPDX-License-Identifier: Apache-2.0
"""The settings that the job and plain PyTorch have in common."""

from dataclasses import dataclass

NODES, RANKS_PER_NODE = 2, 2


@dataclass(frozen=True)
class Settings:
    steps: int
    lr: float = 1e-3
    beta2: float = 0.95
    weight_decay: float = 0.1
    floor: float = 0.1
    """The last learning rate, as a part of `lr`."""
    clip_norm: float = 1.0
    micro_batches: int = 4
    evaluation_rows: int = 8

    @property
    def ranks(self) -> int:
        return NODES * RANKS_PER_NODE

    @property
    def rows(self) -> int:
        """The rows of training that all steps read."""
        return self.steps * self.micro_batches * self.ranks

    @property
    def warmup(self) -> int:
        return max(self.steps // 10, 1)

    @property
    def eval_every(self) -> int:
        return max(self.steps // 10, 1)

    save_every = eval_every

    @property
    def kills(self) -> list[int]:
        """Steps after which the job is killed. None of them is saved."""
        return [self.steps * 36 // 100, self.steps * 73 // 100]
