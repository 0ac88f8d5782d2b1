# SPDX-License-Identifier: Apache-2.0
"""Trains a LoRA adapter of PEFT on a base in 4 bits: exports the model without its weights, packs the base when
fcdp-run reads it, and writes an adapter that PEFT loads.

No Python runs on the ranks. With --nodes=1 they start here. Otherwise start OUT/train.sh on each machine:

  torchrun --nnodes=2 --nproc-per-node=4 --node-rank=0 --master-addr=HOST --no-python OUT/train.sh

example: python qlora.py --model llama --text corpus.txt --out run
"""

import argparse
import shlex
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

import fcdp


def write_tokens(args: argparse.Namespace) -> int:
    """Writes OUT/tokens.npy, the micro-batches of all ranks. Returns their number."""
    tokens = np.array(AutoTokenizer.from_pretrained(args.model)(Path(args.text).read_text())["input_ids"])
    shape = (args.batch, args.length)
    batches = tokens[: len(tokens) // np.prod(shape) * np.prod(shape)].reshape(-1, *shape)
    np.save(args.out / "tokens.npy", batches)
    return len(batches)


def export(args: argparse.Namespace) -> None:
    """Writes the step of a model without weights, and a new adapter as PEFT stores it."""
    adapter = LoraConfig(r=args.rank, lora_alpha=2 * args.rank, target_modules="all-linear", task_type="CAUSAL_LM")
    with fcdp.empty_weights():
        config = AutoConfig.from_pretrained(args.model)
        model = get_peft_model(AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16), adapter)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    ids = torch.zeros(args.batch, args.length, dtype=torch.int64)
    fcdp.export(model.train(), {"input_ids": ids, "labels": ids}, args.out / "step.pt2", check=False)
    # A new adapter depends on the shapes of the base alone.
    torch.manual_seed(0)
    tensors = {}
    for name, value in model.named_parameters():
        if "lora_" in name:
            fan_in = value.shape[-1]
            values = torch.zeros(value.shape) if "lora_B" in name else torch.empty(value.shape).uniform_(-1, 1) / fan_in**0.5
            tensors[name.replace(".default", "")] = values.to(torch.bfloat16)
    adapter.base_model_name_or_path = str(args.model)
    for folder in (args.out / "new", args.out / "adapter"):
        folder.mkdir(exist_ok=True)
        adapter.save_pretrained(folder)
    save_file(tensors, args.out / "new" / "adapter_model.safetensors")


def make_small() -> dict[str, object]:
    """Writes a random small model and a text of numbers. Returns the arguments for them."""
    folder = tempfile.mkdtemp()
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 64}
    torch.manual_seed(1)
    LlamaForCausalLM(LlamaConfig(**shape)).to(torch.bfloat16).save_pretrained(folder)
    numbers = Tokenizer(models.WordLevel({str(i): i for i in range(64)}, unk_token="0"))
    numbers.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=numbers).save_pretrained(folder)
    text = Path(folder) / "text.txt"
    text.write_text(" ".join(str(i * i % 64) for i in range(2048)))
    return {"model": folder, "text": text, "length": 16, "batch": 2, "micro_batches": 2, "ranks_per_node": 2, "lr": 1e-2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="the folder of the base, also as bitsandbytes has packed it")
    parser.add_argument("--text", help="a file to train on")
    parser.add_argument("--out", type=Path, required=True, help="a folder, which all machines share")
    parser.add_argument("--frozen", default="nf4", help="how the base is packed: nf4, int8 or off (default: nf4)")
    parser.add_argument("--rank", type=int, default=16, help="rank of the adapter")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--ranks-per-node", type=int, default=4)
    parser.add_argument("--length", type=int, default=2048, help="tokens of a sequence")
    parser.add_argument("--batch", type=int, default=1, help="sequences of a rank's micro-batch")
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--small", action="store_true", help="a random small model and a generated text, to try it")
    args = parser.parse_args()
    if args.small:
        vars(args).update(make_small())
    args.out = args.out.absolute()
    args.out.mkdir(parents=True, exist_ok=True)
    batches = write_tokens(args)
    export(args)
    step = args.out / "step.so"
    mesh = [f"--nodes={args.nodes}", f"--ranks-per-node={args.ranks_per_node}"]
    options = [f"--frozen={args.frozen}", f"--micro-batches={args.micro_batches}", "--remat=unit", "--master=f32"]
    subprocess.run(
        ["fcdp-compile", args.out / "step.pt2", *mesh, *options, f"--optimizer=adamw,lr={args.lr}", "-o", step], check=True
    )
    steps = max(1, batches // (args.micro_batches * args.nodes * args.ranks_per_node))
    inputs = [f"--input={name}={args.out / 'tokens.npy'}" for name in ("input_ids", "labels")]
    weights = [f"--weights={args.model}", f"--weights={args.out / 'new'}"]
    outputs = [f"--params-out={args.out / 'adapter/adapter_model.safetensors'}", f"--params-like={args.out / 'new'}"]
    run = ["fcdp-run", step, *weights, *inputs, f"--steps={steps}", *outputs, f"--json={args.out / 'log.jsonl'}"]
    script = args.out / "train.sh"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, run))} "$@"\n')
    script.chmod(0o755)
    if args.nodes == 1:
        subprocess.run([script, *mesh], check=True)


if __name__ == "__main__":
    main()
