# SPDX-License-Identifier: Apache-2.0
"""One rank of a job that trains with fcdp.compile on the rows that fcdp-run would read.

usage: looped.py MODEL INPUTS K FIRST LAST CACHE RUN ARGUMENTS

Runs the steps FIRST to LAST - 1 with K micro-batches. Prints, on rank 0, each mean loss, and saves the state dict as
RUN/state-LAST.pt. Goes on from the latest checkpoint in RUN if FIRST is not 0, and saves one at the end. ARGUMENTS are
further ones of fcdp.compile, as JSON; the optimizer "of PyTorch" is an AdamW with two parameter groups, and "Muon and
AdamW" are those of test_muon.py for the example GPT, as "Adafactor" is that of test_adafactor.py. With "evaluation", a
folder of rows, it evaluates the model on all of them before and after it trains, and prints the second loss, too.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch

import fcdp

sys.path.insert(0, str(Path(__file__).resolve().parent / "models"))

from models import build  # noqa: E402


def grouped_adamw(model: torch.nn.Module) -> torch.optim.Optimizer:
    biases = [parameter for name, parameter in model.named_parameters() if name.endswith(".bias")]
    others = [parameter for name, parameter in model.named_parameters() if not name.endswith(".bias")]
    groups = [{"params": others}, {"params": biases, "weight_decay": 0.0, "lr": 5e-4}]
    return torch.optim.AdamW(groups, lr=1e-3, eps=1e-3, weight_decay=0.1)


def muon_and_adamw(model: torch.nn.Module) -> list[torch.optim.Optimizer]:
    named = dict(model.named_parameters())
    matrices = [name for name, value in named.items() if name.startswith("blocks.") and value.ndim == 2]
    others = [value for name, value in named.items() if name not in matrices]
    muon = torch.optim.Muon([named[name] for name in matrices], lr=1e-2, weight_decay=0.5)
    return [torch.optim.AdamW(others, lr=1e-3, eps=1e-3), muon]


def rows_of(folder: str) -> dict[str, Path]:
    return {path.stem: path for path in sorted(Path(folder).glob("*.npy"))}


def evaluate(step: fcdp.Step, files: dict[str, Path]) -> torch.Tensor:
    rows = len(np.load(next(iter(files.values()))))
    batches = fcdp.batches_from_npy(files, step.num_ranks, rows // step.num_ranks)(0)
    return step.evaluate(batches[step.rank :: step.num_ranks])


def main() -> None:
    name, inputs, k, first, last, cache, run = sys.argv[1:8]
    model = build(name)
    files = rows_of(inputs)
    example = fcdp.batches_from_npy(files)(0)[0]
    arguments = json.loads(sys.argv[8])
    if arguments["optimizer"] == "of PyTorch":
        arguments["optimizer"] = grouped_adamw(model)
    elif arguments["optimizer"] == "Muon and AdamW":
        arguments["optimizer"] = muon_and_adamw(model)
    elif arguments["optimizer"] == "Adafactor":
        arguments["optimizer"] = torch.optim.Adafactor(model.parameters(), weight_decay=0.5)
    evaluated = rows_of(arguments.pop("evaluation", "nothing"))
    if evaluated:
        arguments["eval_inputs"] = fcdp.batches_from_npy(evaluated)(0)[0]
    with fcdp.compile(model, example, micro_batches=int(k), cache=cache, threads=1, **arguments) as step:
        if int(first):
            assert step.resume(run) == {"of": name}
            assert step.num_steps == int(first)
        if evaluated:
            evaluate(step, evaluated)
        batches = fcdp.batches_from_npy(files, step.num_ranks, int(k))
        for number in range(int(first), int(last)):
            # All ranks of micro-batch 0, then of micro-batch 1.
            own = batches(number)[step.rank :: step.num_ranks]
            # Both forms of a call.
            if number % 2:
                loss = step.run(own)
            else:
                loss = step(**{key: torch.cat([batch[key] for batch in own]) for key in example})
            if step.rank == 0:
                print(loss.item(), flush=True)
        if evaluated:
            loss = evaluate(step, evaluated)
            if step.rank == 0:
                print(loss.item(), flush=True)
        step.open_checkpoints(run)
        step.save({"of": name})
        state = step.state_dict()
        if step.rank == 0:
            torch.save(state, Path(run) / f"state-{last}.pt")


main()
