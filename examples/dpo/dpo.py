# SPDX-License-Identifier: Apache-2.0
"""Trains a language model on preferences by DPO (arXiv 2305.18290), beside a frozen copy of itself.

example: torchrun --nproc-per-node=4 dpo.py --data preferences.jsonl --out trained
"""

import argparse
import json
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from huggingface_hub import snapshot_download
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

import fcdp

IGNORED = -100  # a label that has no part in the loss


class PreferenceLoss(nn.Module):
    def __init__(self, policy: nn.Module, reference: nn.Module, beta: float):
        super().__init__()
        self.policy, self.reference, self.beta = policy.train(), reference.eval().requires_grad_(False), beta

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Takes [pairs, 2, length]: the chosen answer of each pair, and the rejected one."""
        with torch.no_grad():
            before = log_probabilities(self.reference, input_ids, labels)
        chosen, rejected = (log_probabilities(self.policy, input_ids, labels) - before).unbind(1)
        return -F.logsigmoid(self.beta * (chosen - rejected)).mean()


def log_probabilities(model: nn.Module, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    logits = model(input_ids=input_ids.flatten(0, 1)).logits[:, :-1].float()
    of_tokens = F.cross_entropy(logits.transpose(1, 2), labels.flatten(0, 1)[:, 1:], reduction="none", ignore_index=IGNORED)
    return -of_tokens.sum(-1).unflatten(0, labels.shape[:2])


def load(args: argparse.Namespace) -> tuple[nn.Module, list[dict[str, torch.Tensor]]]:
    """Returns the model with its loss, without values, and a row for each pair."""
    config = AutoConfig.from_pretrained(args.model)
    with fcdp.empty_weights():  # Each rank reads its shards from the files, and no process holds the models.
        policy, reference = (AutoModelForCausalLM.from_config(config, dtype=config.dtype) for _ in range(2))
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    rows = []
    for pair in map(json.loads, open(args.data)):
        prompt = tokenizer(pair["prompt"])["input_ids"]
        texts = [pair[key] + tokenizer.eos_token for key in ("chosen", "rejected")]
        answers = tokenizer(texts, add_special_tokens=False)["input_ids"]
        # Padding is on the right, where a causal model does not see it.
        ids = [(prompt + answer + [0] * args.length)[: args.length] for answer in answers]
        labels = [([IGNORED] * len(prompt) + answer + [IGNORED] * args.length)[: args.length] for answer in answers]
        rows.append({"input_ids": torch.tensor(ids), "labels": torch.tensor(labels)})
    return PreferenceLoss(policy, reference, args.beta), rows


def make_small() -> dict[str, object]:
    """Writes a random small model and pairs of which the chosen answer counts on. Returns the arguments for them."""
    folder = tempfile.mkdtemp()
    shape = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 64}
    LlamaForCausalLM(LlamaConfig(**shape)).save_pretrained(folder)
    numbers = Tokenizer(models.WordLevel({str(i): i for i in range(64)}, unk_token="0"))
    numbers.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=numbers, eos_token="0").save_pretrained(folder)
    with open(f"{folder}/data.jsonl", "w") as file:
        for i in range(64):
            chosen = "".join(f"{(i + j) % 64} " for j in range(2, 8))
            print(json.dumps({"prompt": f"{i} {(i + 1) % 64} ", "chosen": chosen, "rejected": f"{i} " * 6}), file=file)
    return {"model": folder, "data": file.name, "length": 12, "batch": 2, "micro_batches": 2, "lr": 1e-2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="allenai/Llama-3.1-Tulu-3-8B-SFT", help="a name on the Hub, or a folder")
    parser.add_argument("--data", help='a file with a {"prompt": ..., "chosen": ..., "rejected": ...} on each line')
    parser.add_argument("--out", required=True, help="the folder for the trained model")
    parser.add_argument("--length", type=int, default=1024, help="tokens to which rows are padded or cut")
    parser.add_argument("--batch", type=int, default=1, help="pairs of a rank's micro-batch")
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--lr", type=float, default=5e-7)
    parser.add_argument("--beta", type=float, default=0.1, help="how much the policy is held to the reference")
    parser.add_argument("--check", action="store_true", help="compare a step of the whole model with eager PyTorch first")
    parser.add_argument("--small", action="store_true", help="a random small model and generated data, to try it on CPUs")
    args = parser.parse_args()
    torch.manual_seed(0)  # Ranks start from the same values.
    if args.small:
        vars(args).update(make_small())
    elif not Path(args.model).is_dir():
        args.model = snapshot_download(args.model, allow_patterns=["*.json", "*.safetensors"])
    model, rows = load(args)
    example = {name: value.expand(args.batch, *value.shape) for name, value in rows[0].items()}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    options = ["--master=f32", "--clip-norm=1", "--remat=unit", f"--target={device}"]
    weights = {"policy": args.model, "reference": args.model}
    settings = {"options": options, "micro_batches": args.micro_batches, "weights": weights, "check": args.check}
    optimizer = f"adamw,lr={args.lr},weight_decay=0"
    with fcdp.compile(model, example, optimizer=optimizer, **settings) as step:
        sampler = DistributedSampler(rows, step.num_ranks, step.rank, seed=0, drop_last=True)
        loader = DataLoader(rows, args.micro_batches * args.batch, sampler=sampler, drop_last=True)
        step.schedule = f"linear,warmup={len(loader) // 10},steps={len(loader)}"
        for batch in loader:
            loss = step(**batch).item()
            if step.rank == 0:
                sent = step.figures["inter_bytes"]
                print(f"step {step.num_steps}: loss {loss:.7f}, a node sent {sent:.0f} bytes", flush=True)
        trained = step.state_dict()
        if step.rank == 0:
            model.load_state_dict(trained, assign=True)
            model.policy.save_pretrained(args.out)


if __name__ == "__main__":
    main()
