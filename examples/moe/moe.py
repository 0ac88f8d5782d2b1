# SPDX-License-Identifier: Apache-2.0
"""Trains a mixture of experts, OLMoE of 7 billion parameters, on text, with the loss that balances its experts.

example: torchrun --nnodes=2 --nproc-per-node=4 --node-rank=0 --master-addr=HOST moe.py --text corpus.txt --out trained
"""

import argparse
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
    OlmoeConfig,
    OlmoeForCausalLM,
    PreTrainedTokenizerFast,
)

import fcdp


def load(args: argparse.Namespace) -> tuple[nn.Module, torch.Tensor]:
    """Returns the model without values, and the text in rows of tokens."""
    config = AutoConfig.from_pretrained(args.model, output_router_logits=True)  # adds the loss of the router
    with fcdp.empty_weights():  # Each rank reads its shards from the files, and no process holds the model.
        model = AutoModelForCausalLM.from_config(config, dtype=config.dtype).train()
    with open(args.text) as file:
        tokens = torch.tensor(AutoTokenizer.from_pretrained(args.model)(file.read())["input_ids"])
    return model, tokens[: len(tokens) // args.length * args.length].reshape(-1, args.length)


def make_small() -> dict[str, object]:
    """Writes a random small model and a text of numbers. Returns the arguments for them."""
    folder = tempfile.mkdtemp()
    shape = {"hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 64}
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "eos_token_id": None, "pad_token_id": None}
    OlmoeForCausalLM(OlmoeConfig(num_key_value_heads=2, **shape, **experts)).save_pretrained(folder)
    numbers = Tokenizer(models.WordLevel({str(i): i for i in range(64)}, unk_token="0"))
    numbers.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=numbers).save_pretrained(folder)
    with open(f"{folder}/text.txt", "w") as file:
        print(*(i * i % 64 for i in range(1024)), file=file)
    return {"model": folder, "text": file.name, "length": 16, "batch": 2, "micro_batches": 2, "lr": 1e-2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="allenai/OLMoE-1B-7B-0924", help="a name on the Hub, or a folder")
    parser.add_argument("--text", help="a file to train on")
    parser.add_argument("--out", required=True, help="the folder for the trained model")
    parser.add_argument("--length", type=int, default=2048, help="tokens of a row")
    parser.add_argument("--batch", type=int, default=1, help="rows of a rank's micro-batch")
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--lr", type=float, default=5e-5)
    parser.add_argument("--small", action="store_true", help="a random small model and a generated text, to try it on CPUs")
    args = parser.parse_args()
    torch.manual_seed(0)
    if args.small:
        vars(args).update(make_small())
    elif not Path(args.model).is_dir():
        args.model = snapshot_download(args.model, allow_patterns=["*.json", "*.safetensors"])
    model, rows = load(args)
    example = {"input_ids": rows[: args.batch], "labels": rows[: args.batch]}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    options = ["--master=f32", "--clip-norm=1", "--remat=unit", f"--target={device}"]
    settings = {"optimizer": f"adamw,lr={args.lr},weight_decay=0.1", "options": options, "check": False}
    # The folder has the experts one by one, as Transformers stores them: fcdp.compile stacks them.
    with fcdp.compile(model, example, weights=args.model, micro_batches=args.micro_batches, **settings) as step:
        sampler = DistributedSampler(rows, step.num_ranks, step.rank, seed=0, drop_last=True)
        loader = DataLoader(rows, args.micro_batches * args.batch, sampler=sampler, drop_last=True)
        step.schedule = f"cosine,warmup={len(loader) // 20},steps={len(loader)},min=0.1"
        for batch in loader:
            loss = step(input_ids=batch, labels=batch).item()
            if step.rank == 0:
                print(f"step {step.num_steps}: loss {loss:.7f}, {step.figures['seconds']:.2f} s", flush=True)
        trained = step.state_dict()
        if step.rank == 0:
            model.load_state_dict(trained, assign=True)
            model.save_pretrained(args.out)
            AutoTokenizer.from_pretrained(args.model).save_pretrained(args.out)


if __name__ == "__main__":
    main()
