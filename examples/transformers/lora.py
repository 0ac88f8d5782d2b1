# SPDX-License-Identifier: Apache-2.0
"""Trains a LoRA adapter of PEFT on the lines of a text file, on the ranks that torchrun starts.

example: torchrun --nproc-per-node=2 lora.py --text FILE --out adapter
"""

import argparse

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

import fcdp


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="HuggingFaceTB/SmolLM2-135M", help="a name on the Hub, or a folder")
    parser.add_argument("--text", required=True)
    parser.add_argument("--out", required=True, help="the folder for the adapter")
    parser.add_argument("--length", type=int, default=128, help="tokens of a row (default 128)")
    parser.add_argument("--batch", type=int, default=4, help="rows of a rank (default 4)")
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(0)  # Ranks start from the same adapter.
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    base = AutoModelForCausalLM.from_pretrained(args.model)
    base.train()  # It comes in evaluation mode.
    model = get_peft_model(base, LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"]))

    with open(args.text) as file:
        tokens = torch.tensor(tokenizer(file.read())["input_ids"])
    rows = tokens[: len(tokens) // args.length * args.length].reshape(-1, args.length)
    draw = torch.Generator().manual_seed(0)  # The same on all ranks, which take different parts of what is drawn.

    example = rows[: args.batch]
    with fcdp.compile(model, {"input_ids": example, "labels": example}, optimizer="adamw,lr=1e-3") as step:
        for _ in range(args.steps):
            drawn = torch.randint(len(rows), (step.num_ranks, args.batch), generator=draw)[step.rank]
            loss = step(input_ids=rows[drawn], labels=rows[drawn])
            if step.rank == 0:
                print(f"step {step.num_steps}: loss {loss.item():.4f}", flush=True)
        trained = step.state_dict()
        if step.rank == 0:
            model.load_state_dict(trained)
            model.save_pretrained(args.out)


main()
