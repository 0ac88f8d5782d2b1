# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a language model of Transformers on the lines of a text file, on the ranks that torchrun starts.

example: torchrun --nproc-per-node=2 finetune.py --text FILE --out trained
"""

import argparse

import torch
from torch.utils.data import DataLoader, DistributedSampler
from transformers import AutoModelForCausalLM, AutoTokenizer

import fcdp

IGNORED = -100  # a label that has no part in the loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="HuggingFaceTB/SmolLM2-135M", help="a name on the Hub, or a folder")
    parser.add_argument("--text", required=True, help="a file with an example on each line")
    parser.add_argument("--out", required=True, help="the folder for the trained model")
    parser.add_argument("--lengths", type=int, nargs="+", default=[32, 64, 128], help="lengths of batches, in tokens")
    parser.add_argument("--batch", type=int, default=4, help="lines of a rank's micro-batch (default 4)")
    parser.add_argument("--micro-batches", type=int, default=2)
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model).train()  # It comes in evaluation mode.

    def collate(lines: list[str]) -> dict[str, torch.Tensor]:
        # Pads to the least length that all fit into, on the right, where a causal model does not see it.
        rows = [tokenizer(line)["input_ids"][: args.lengths[-1]] for line in lines]
        length = next(length for length in args.lengths if length >= max(map(len, rows)))
        labels = torch.tensor([row + [IGNORED] * (length - len(row)) for row in rows])
        return {"input_ids": labels.clamp(min=0), "labels": labels}

    lines = [line for line in open(args.text) if line.strip()]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    matrices = [p for p in model.parameters() if p.dim() > 1]
    groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=3e-4, weight_decay=0.1)
    shapes = [torch.zeros(args.batch, length, dtype=torch.int64) for length in args.lengths]
    first, *more = [{"input_ids": zeros, "labels": zeros} for zeros in shapes]
    k, pad = args.micro_batches, {"labels": IGNORED}  # for a batch that is shorter than another rank's
    with fcdp.compile(model, first, more_inputs=more, pad=pad, optimizer=optimizer, micro_batches=k) as step:
        sampler = DistributedSampler(lines, step.num_ranks, step.rank, seed=0, drop_last=True)
        loader = DataLoader(lines, k * args.batch, sampler=sampler, collate_fn=collate, drop_last=True)
        step.schedule = f"cosine,warmup={len(loader) // 20},steps={len(loader)},min=0.1"
        for batch in loader:
            loss = step(**batch)
            if step.rank == 0:
                print(f"step {step.num_steps}: length {batch['labels'].shape[1]} loss {loss.item():.4f}", flush=True)
        trained = step.state_dict()
        if step.rank == 0:
            model.load_state_dict(trained)
            model.save_pretrained(args.out)


main()
