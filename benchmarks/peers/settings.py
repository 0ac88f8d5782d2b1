# SPDX-License-Identifier: Apache-2.0
"""The settings that all rows of a table have in common."""

from dataclasses import dataclass

NODES, RANKS_PER_NODE = 2, 2
RANKS = NODES * RANKS_PER_NODE
SEED = 0
UNLIMITED = "unlimited"


@dataclass(frozen=True)
class Setting:
    """A table."""

    model: str
    dtype: str
    micro_batches: int
    megabits: int | None

    @property
    def name(self) -> str:
        return f"{self.step_name}-{self.link}"

    @property
    def step_name(self) -> str:
        """Name of what does not depend on the link."""
        return f"{self.model}-{self.dtype}-k{self.micro_batches}"

    @staticmethod
    def parse(name: str) -> "Setting":
        model, dtype, count, link = name.split("-")
        megabits = None if link == UNLIMITED else int(link.removesuffix("mbit"))
        return Setting(model, dtype, int(count.removeprefix("k")), megabits)

    @property
    def link(self) -> str:
        return UNLIMITED if self.megabits is None else f"{self.megabits}mbit"


LR = 3e-4
OPTIMIZER = f"adamw,lr={LR:g}"
"""With PyTorch's other defaults, which are fcdp's."""

TOLERANCES = {"f32": 1e-5, "bf16": 5e-3}
"""Greatest relative difference of a loss of an exact row from fcdp's."""
ROUNDED = 1e-2
"""The same where the masters of parameters in bfloat16 begin as these."""
