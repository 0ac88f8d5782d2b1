# SPDX-License-Identifier: Apache-2.0
"""Pre-trains a GPT on raw text: makes a tokenizer, a file of tokens and a compiled step, and starts fcdp-run.

No Python runs on the ranks. With --nodes=1 they start here. Otherwise start OUT/train.sh on each machine:

  torchrun --nnodes=2 --nproc-per-node=4 --node-rank=0 --master-addr=HOST --no-python OUT/train.sh

example: python pretrain.py --text corpus/*.txt --out run
"""

import argparse
import shlex
import subprocess
from pathlib import Path

import numpy as np
import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import GPT2Config, GPT2LMHeadModel

import fcdp


def write_tokens(files: list[Path], out: Path, vocabulary: int) -> int:
    """Writes OUT/tokenizer.json and OUT/tokens.u16. Returns the number of tokens."""
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train([str(file) for file in files], vocab_size=vocabulary, special_tokens=["<|end|>"], show_progress=False)
    tokenizer.save(str(out / "tokenizer.json"))
    count = 0
    with open(out / "tokens.u16", "wb") as tokens:
        for file in files:
            ids = tokenizer.encode(file.read_text(errors="replace") + "<|end|>").ids
            np.array(ids, dtype="<u2").tofile(tokens)
            count += len(ids)
    return count


def export(args: argparse.Namespace) -> None:
    """Writes a step and an evaluation of a new model. The vocabulary is padded, as GPUs are slower at odd numbers."""
    torch.manual_seed(0)
    shape = {"n_layer": args.layers, "n_embd": args.width, "n_head": max(1, args.width // 64), "n_positions": args.length}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=-(-args.vocabulary // 64) * 64, **shape)).train()
    ids = torch.randint(args.vocabulary, (args.batch, args.length))
    example, settings = {"input_ids": ids, "labels": ids}, {"autocast": torch.bfloat16, "check": False}
    fcdp.export(model, example, args.out / "step.pt2", **settings)
    fcdp.export(model, example, args.out / "eval.pt2", train=False, **settings)
    model.config.save_pretrained(args.out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, nargs="+", required=True, help="files to train on; the end of all is held out")
    parser.add_argument("--out", type=Path, required=True, help="a folder, which all machines share")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--ranks-per-node", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=32768, help="entries of the tokenizer, at most 65536")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--length", type=int, default=1024, help="tokens of a sequence")
    parser.add_argument("--batch", type=int, default=8, help="sequences of a rank's micro-batch")
    parser.add_argument("--micro-batches", type=int, default=4)
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--lr", type=float, default=6e-4)
    parser.add_argument("--small", action="store_true", help="a small model, to try it on CPUs")
    args = parser.parse_args()
    if args.small:
        sizes = {"vocabulary": 320, "layers": 2, "width": 64, "length": 64, "batch": 4, "micro_batches": 2, "lr": 1e-2}
        vars(args).update(sizes)
    args.out = args.out.absolute()
    args.out.mkdir(parents=True, exist_ok=True)
    tokens = write_tokens(args.text, args.out, args.vocabulary)
    export(args)
    mesh = [f"--nodes={args.nodes}", f"--ranks-per-node={args.ranks_per_node}"]
    of_step = args.micro_batches * args.batch * args.length * args.nodes * args.ranks_per_node
    steps = max(1, int(args.epochs * tokens / of_step))
    step = args.out / "step.so"
    target = f"--target={'cuda' if torch.cuda.is_available() else 'cpu'}"
    optimizer = [f"--optimizer=adamw,lr={args.lr},weight_decay=0.1,beta2=0.95", "--group=*.bias,*ln_*:weight_decay=0"]
    sums = [f"--micro-batches={args.micro_batches}", "--accumulate=node", "--clip-norm=1"]
    archives = [args.out / "step.pt2", f"--eval={args.out / 'eval.pt2'}"]
    subprocess.run(["fcdp-compile", *archives, *mesh, *optimizer, *sums, target, "-o", step], check=True)

    inputs = [f"--input={name}={args.out / 'tokens.u16'}:u16" for name in ("input_ids", "labels")]
    rate = f"--schedule=cosine,warmup={steps // 50},steps={steps},min=0.1"
    saved = [f"--save-dir={args.out / 'checkpoints'}", "--save-every=500", "--keep=2", "--resume"]
    run = ["fcdp-run", step, f"--weights={args.out / 'step.pt2'}", *inputs, "--data=shuffle=1,validation=0.02", rate, *saved]
    run += [f"--steps={steps}", f"--eval-every={max(1, steps // 20)}"]
    run += [f"--json={args.out / 'log.jsonl'}", f"--params-out={args.out / 'model.safetensors'}"]
    script = args.out / "train.sh"
    script.write_text(f"#!/bin/sh\nexec {shlex.join(map(str, run))} \"$@\"\n")
    script.chmod(0o755)
    print(f"{tokens} tokens, {steps} steps", flush=True)
    if args.nodes == 1 or args.small:
        subprocess.run([script, *mesh], check=True)


if __name__ == "__main__":
    main()
