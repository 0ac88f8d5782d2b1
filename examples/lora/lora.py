# SPDX-License-Identifier: Apache-2.0
"""Trains a LoRA adapter of PEFT for a Llama of 8 billion parameters, in the Trainer of Transformers.

example: torchrun --nproc-per-node=4 lora.py --text corpus.txt --out adapter
"""

import argparse
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    TrainingArguments,
)

from fcdp.integrations.transformers import CompiledTrainer


def load(args: argparse.Namespace) -> tuple[nn.Module, list[dict[str, torch.Tensor]]]:
    """Returns the model with a new adapter, and the text in rows of tokens."""
    base = AutoModelForCausalLM.from_pretrained(args.model, dtype="auto")
    adapter = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    model = get_peft_model(base, adapter)
    with open(args.text) as file:
        tokens = torch.tensor(AutoTokenizer.from_pretrained(args.model)(file.read())["input_ids"])
    rows = tokens[: len(tokens) // args.length * args.length].reshape(-1, args.length)
    return model, [{"input_ids": row, "labels": row} for row in rows]


def make_small() -> dict[str, object]:
    """Writes a random small model and a text of numbers. Returns the arguments for them."""
    folder = tempfile.mkdtemp()
    shape = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 64}
    LlamaForCausalLM(LlamaConfig(**shape)).save_pretrained(folder)
    numbers = Tokenizer(models.WordLevel({str(i): i for i in range(64)}, unk_token="0"))
    numbers.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=numbers).save_pretrained(folder)
    with open(f"{folder}/text.txt", "w") as file:
        print(*(i * i % 64 for i in range(1024)), file=file)
    return {"model": folder, "text": file.name, "length": 16, "batch": 2, "micro_batches": 2, "lr": 1e-2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="meta-llama/Llama-3.1-8B", help="a name on the Hub, or a folder")
    parser.add_argument("--text", help="a file to train on")
    parser.add_argument("--out", required=True, help="the folder for checkpoints and the adapter")
    parser.add_argument("--length", type=int, default=2048, help="tokens of a row")
    parser.add_argument("--batch", type=int, default=1, help="rows of a rank's micro-batch")
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--check", action="store_true", help="compare a step of the whole model with eager PyTorch first")
    parser.add_argument("--small", action="store_true", help="a random small model and a generated text, to try it on CPUs")
    args = parser.parse_args()
    torch.manual_seed(0)  # Ranks start from the same adapter.
    if args.small:
        vars(args).update(make_small())
    model, rows = load(args)
    arguments = TrainingArguments(
        output_dir=args.out,
        use_cpu=True,  # of the Trainer: the compiled step has the GPU
        num_train_epochs=1,
        per_device_train_batch_size=args.batch,
        gradient_accumulation_steps=args.micro_batches,
        learning_rate=args.lr,
        lr_scheduler_type="cosine",
        warmup_steps=0.05,
        logging_steps=1,
        save_steps=200,
        dataloader_drop_last=True,
        report_to="none",
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    options = {"options": ["--remat=unit", f"--target={device}"], "check": args.check}
    trainer = CompiledTrainer(model, arguments, train_dataset=rows, step_options=options)
    trainer.train()
    trainer.save_model()
    trainer.close()


if __name__ == "__main__":
    main()
