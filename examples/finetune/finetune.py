# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes all parameters of a Llama of 8 billion on prompts and responses, on 2 machines of 4 GPUs.

example: torchrun --nnodes=2 --nproc-per-node=4 --node-rank=0 --master-addr=HOST finetune.py --data rows.jsonl --out run
"""

import argparse
import json
import tempfile
from pathlib import Path

import torch
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


def load(args: argparse.Namespace) -> tuple[nn.Module, list[dict[str, torch.Tensor]]]:
    """Returns the model without values, and a row of each line."""
    config = AutoConfig.from_pretrained(args.model)
    with fcdp.empty_weights():  # Each rank reads its shards from the files, and no process holds the model.
        model = AutoModelForCausalLM.from_config(config, dtype=config.dtype).train()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    rows = []
    for line in map(json.loads, open(args.data)):
        prompt = tokenizer(line["prompt"])["input_ids"]
        response = tokenizer(line["response"] + tokenizer.eos_token, add_special_tokens=False)["input_ids"]
        # The loss is that of responses. Padding is on the right, where a causal model does not see it.
        ids = (prompt + response + [0] * args.length)[: args.length]
        labels = ([IGNORED] * len(prompt) + response + [IGNORED] * args.length)[: args.length]
        rows.append({"input_ids": torch.tensor(ids), "labels": torch.tensor(labels)})
    return model, rows


def make_small() -> dict[str, object]:
    """Writes a random small model and rows that count. Returns the arguments for them."""
    folder = tempfile.mkdtemp()
    shape = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 64}
    LlamaForCausalLM(LlamaConfig(**shape)).save_pretrained(folder)
    numbers = Tokenizer(models.WordLevel({str(i): i for i in range(64)}, unk_token="0"))
    numbers.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=numbers, eos_token="0").save_pretrained(folder)
    with open(f"{folder}/rows.jsonl", "w") as file:
        for i in range(64):
            words = [str((i + j) % 64) for j in range(8)]
            print(json.dumps({"prompt": " ".join(words[:2]), "response": " ".join(words[2:]) + " "}), file=file)
    return {"model": folder, "data": file.name, "length": 12, "batch": 2, "micro_batches": 2, "lr": 1e-2, "save_every": 4}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="meta-llama/Llama-3.1-8B", help="a name on the Hub, or a folder")
    parser.add_argument("--data", help='a file with a {"prompt": ..., "response": ...} on each line')
    parser.add_argument("--out", required=True, help="the folder of checkpoints, which all machines share, and of the model")
    parser.add_argument("--length", type=int, default=2048, help="tokens to which rows are padded or cut")
    parser.add_argument("--batch", type=int, default=1, help="rows of a rank's micro-batch")
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-5)
    parser.add_argument("--save-every", type=int, default=200, help="steps from one checkpoint to the next")
    parser.add_argument("--small", action="store_true", help="a random small model and generated rows, to try it on CPUs")
    args = parser.parse_args()
    torch.manual_seed(0)
    if args.small:
        vars(args).update(make_small())
    elif not Path(args.model).is_dir():
        args.model = snapshot_download(args.model, allow_patterns=["*.json", "*.safetensors"])
    model, rows = load(args)
    example = {name: value.expand(args.batch, -1) for name, value in rows[0].items()}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    options = ["--master=f32", "--clip-norm=1", "--remat=unit", f"--target={device}"]
    settings = {"optimizer": f"adamw,lr={args.lr},weight_decay=0.1", "options": options}
    with fcdp.compile(model, example, weights=args.model, micro_batches=args.micro_batches, **settings) as step:
        sampler = DistributedSampler(rows, step.num_ranks, step.rank, seed=0, drop_last=True)
        loader = DataLoader(rows, args.micro_batches * args.batch, sampler=sampler, drop_last=True)
        step.schedule = f"cosine,warmup={len(loader) // 20},steps={len(loader)},min=0.1"
        step.resume(f"{args.out}/checkpoints")  # The latest one, if there is one.
        step.open_checkpoints(f"{args.out}/checkpoints", keep=2)
        for number, batch in enumerate(loader):
            if number < step.num_steps:
                continue  # The job that saved the checkpoint has trained on it.
            loss = step(**batch).item()
            if step.rank == 0:
                print(f"step {step.num_steps}: loss {loss:.7f}, {step.figures['seconds']:.2f} s", flush=True)
            if step.num_steps % args.save_every == 0:
                step.save()
        step.finish_save()
        step.save_weights(f"{args.out}/model/")
        if step.rank == 0:
            model.config.save_pretrained(f"{args.out}/model")
            AutoTokenizer.from_pretrained(args.model).save_pretrained(f"{args.out}/model")


if __name__ == "__main__":
    main()
