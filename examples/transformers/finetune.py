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
    parser.add_argument("--length", type=int, default=128, help="tokens to which a line is padded or cut (default 128)")
    parser.add_argument("--batch", type=int, default=4, help="lines of a rank's micro-batch (default 4)")
    parser.add_argument("--micro-batches", type=int, default=2)
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model, use_cache=False)

    def collate(lines: list[str]) -> dict[str, torch.Tensor]:
        # Padding is on the right, where a causal model does not see it.
        rows = [tokenizer(line)["input_ids"][: args.length] for line in lines]
        labels = torch.tensor([row + [IGNORED] * (args.length - len(row)) for row in rows])
        return {"input_ids": labels.clamp(min=0), "labels": labels}

    lines = [line for line in open(args.text) if line.strip()]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=3e-4, weight_decay=0.1)
    example, k = collate(lines[: args.batch]), args.micro_batches
    with fcdp.compile(model, example, optimizer=optimizer, micro_batches=k) as step:
        sampler = DistributedSampler(lines, step.num_ranks, step.rank, seed=0, drop_last=True)
        loader = DataLoader(lines, k * args.batch, sampler=sampler, collate_fn=collate, drop_last=True)
        steps = len(loader)
        step.schedule = f"cosine,warmup={steps // 20},steps={steps},min=0.1"
        for batch in loader:
            loss = step(**batch)
            if step.rank == 0:
                print(f"step {step.num_steps}: loss {loss.item():.4f}", flush=True)
        trained = step.state_dict()
        if step.rank == 0:
            model.load_state_dict(trained)
            model.save_pretrained(args.out)


main()
