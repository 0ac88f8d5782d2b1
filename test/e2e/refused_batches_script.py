# SPDX-License-Identifier: Apache-2.0
"""Gives batches to compiled steps that would train wrongly in silence, and prints the message about each.

usage: refused_batches_script.py CACHE
"""

import sys
import warnings

import torch
from torch import nn

import fcdp

ONES = torch.ones(2, 4, dtype=torch.int64)


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(8, 4), nn.Embedding(8, 4)

    def forward(
        self, ids: torch.Tensor, position_ids: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        return (self.embed(ids) + self.places(position_ids)).square().mean()


def said(step: fcdp.Step, **batch: torch.Tensor) -> str:
    try:
        return f"loss {step(**batch).item():.1f}"
    except fcdp.StepError as error:
        return f"{error.code}: {error}"


def batch(rows: int, tokens: int, positions: int) -> dict[str, torch.Tensor]:
    places = torch.arange(positions).repeat(rows, 1)
    return {"ids": torch.ones(rows, tokens, dtype=torch.int64), "position_ids": places}


def main(cache: str) -> None:
    settings = {"cache": cache, "threads": 1, "check": False}
    model, whole = Tokens(), {**batch(2, 4, 4), "attention_mask": ONES}
    holed = ONES.clone()
    holed[1, 2] = 0
    with fcdp.compile(model, whole, full_masks=["attention_mask"], **settings) as step:
        print(said(step, **{**whole, "attention_mask": holed}))
        print(said(step, **whole).split()[0], flush=True)
    with fcdp.compile(model, batch(2, 2, 2), more_inputs=[batch(2, 4, 4)], **settings) as step:
        for sizes in ((2, 4, 3), (2, 3, 3)):
            print(said(step, **batch(*sizes)).partition(" 0.")[0], flush=True)
        print(said(step, ids=ONES[:1], position_ids=torch.tensor([[0, 1, 0, 1]] * 2)), flush=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        norm = nn.Sequential(nn.LayerNorm(4, dtype=torch.bfloat16), nn.Linear(4, 4, dtype=torch.bfloat16))
        row = (torch.randn(2, 4, dtype=torch.bfloat16), torch.randn(2, 4, dtype=torch.bfloat16))
        for options in ([], ["--master=f32"]):
            arguments = {"loss_fn": nn.functional.mse_loss, "optimizer": "adamw,lr=1e-5", "options": options, **settings}
            with fcdp.compile(norm, row, **arguments):
                print(next((str(one.message) for one in caught if "--master=f32" in str(one.message)), "no word"))
            caught.clear()


main(sys.argv[1])
