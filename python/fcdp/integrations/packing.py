# SPDX-License-Identifier: Apache-2.0
"""A collator of Transformers for compiled steps: packed rows of one length."""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DataCollatorWithFlattening

from fcdp.errors import StepError

# A label that no loss counts.
_IGNORED = -100


class PaddedFlattening(DataCollatorWithFlattening):
    """Does what DataCollatorWithFlattening does, and pads each batch at its end to `tokens` tokens.

    The padding is a document of its own, whose labels no loss counts. Raises StepError if the rows of a batch have more
    tokens.
    """

    def __init__(self, tokens: int, **kwargs: Any):
        for name in ("return_flash_attn_kwargs", "return_seq_idx"):
            if kwargs.get(name):
                raise StepError("misuse", f"PaddedFlattening: expected {name}=False: positions alone keep documents apart")
        if not kwargs.get("return_position_ids", True):
            raise StepError("misuse", "PaddedFlattening: expected return_position_ids=True: positions keep documents apart")
        super().__init__(**kwargs)
        self.tokens = tokens

    def __call__(self, features: Sequence[Any], *args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:
        batch = super().__call__(features, *args, **kwargs)
        used = batch["input_ids"].shape[1]
        if used > self.tokens:
            raise StepError(
                "misuse",
                f"PaddedFlattening: expected at most {self.tokens} tokens in a batch, got {used} in its {len(features)} rows: "
                "give a greater number of tokens, fewer rows in a batch, or shorter ones",
            )
        ends = {"labels": torch.full((self.tokens - used,), _IGNORED), "position_ids": torch.arange(self.tokens - used)}
        ends["position_ids"] += self.position_ids_start
        return {name: _lengthened(rows, ends.get(name), self.tokens) for name, rows in batch.items()}


def _lengthened(rows: torch.Tensor, end: torch.Tensor | None, tokens: int) -> torch.Tensor:
    if end is None:
        end = rows.new_zeros(tokens - rows.shape[1])
    return torch.cat([rows, end.to(rows.dtype).expand(rows.shape[0], -1)], dim=1)
