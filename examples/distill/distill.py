# SPDX-License-Identifier: Apache-2.0
"""Trains a small language model on the probabilities of a large one, which is frozen and a part of the step.

example: torchrun --nproc-per-node=4 distill.py --text corpus.txt --out student
"""

import argparse
import tempfile

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import fcdp


class Distillation(nn.Module):
    """Holds the teacher as a module, so that its parameters are sharded. In a closure they would be constants."""

    def __init__(self, student: nn.Module, teacher: nn.Module, temperature: float, hard: float):
        super().__init__()
        self.student, self.teacher = student.train(), teacher.eval().requires_grad_(False)
        self.temperature, self.hard = temperature, hard

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            wanted = F.log_softmax(self.teacher(input_ids=input_ids).logits.float() / self.temperature, -1)
        logits = self.student(input_ids=input_ids).logits.float()
        found = F.log_softmax(logits / self.temperature, -1)
        # The divergence of a token; the square keeps gradients as large as those of the labels.
        soft = self.temperature**2 * F.kl_div(found, wanted, reduction="none", log_target=True).sum(-1).mean()
        hard = F.cross_entropy(logits[:, :-1].flatten(0, 1), input_ids[:, 1:].flatten())
        return (1 - self.hard) * soft + self.hard * hard


def load(args: argparse.Namespace) -> tuple[nn.Module, torch.Tensor]:
    """Returns the model with its loss, and the text in rows of tokens."""
    student, teacher = (AutoModelForCausalLM.from_pretrained(name, dtype="auto") for name in (args.student, args.teacher))
    with open(args.text) as file:
        tokens = torch.tensor(AutoTokenizer.from_pretrained(args.teacher)(file.read())["input_ids"])
    rows = tokens[: len(tokens) // args.length * args.length].reshape(-1, args.length)
    return Distillation(student, teacher, args.temperature, args.hard), rows


def make_small() -> dict[str, object]:
    """Writes two random small models and a text of numbers. Returns the arguments for them."""
    folder = tempfile.mkdtemp()
    shape = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 2, "vocab_size": 64}
    LlamaForCausalLM(LlamaConfig(num_hidden_layers=1, **shape)).save_pretrained(f"{folder}/student")
    LlamaForCausalLM(LlamaConfig(num_hidden_layers=1, initializer_range=0.2, **shape)).save_pretrained(f"{folder}/teacher")
    numbers = Tokenizer(models.WordLevel({str(i): i for i in range(64)}, unk_token="0"))
    numbers.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=numbers).save_pretrained(f"{folder}/teacher")
    with open(f"{folder}/text.txt", "w") as file:
        print(*(i * i % 64 for i in range(1024)), file=file)
    small = {"length": 16, "batch": 2, "micro_batches": 2, "lr": 1e-2}
    return {"student": f"{folder}/student", "teacher": f"{folder}/teacher", "text": file.name, **small}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teacher", default="meta-llama/Llama-3.1-8B", help="a name on the Hub, or a folder")
    parser.add_argument("--student", default="meta-llama/Llama-3.2-1B", help="one with the same vocabulary")
    parser.add_argument("--text", help="a file to train on")
    parser.add_argument("--out", required=True, help="the folder for the trained student")
    parser.add_argument("--length", type=int, default=2048, help="tokens of a row")
    parser.add_argument("--batch", type=int, default=1, help="rows of a rank's micro-batch")
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--temperature", type=float, default=2.0)
    parser.add_argument("--hard", type=float, default=0.1, help="share of the loss that is the text's own, from 0 to 1")
    parser.add_argument("--check", action="store_true", help="compare a step of the whole model with eager PyTorch first")
    parser.add_argument("--small", action="store_true", help="random small models and a generated text, to try it on CPUs")
    args = parser.parse_args()
    torch.manual_seed(0)  # Ranks start from the same values.
    if args.small:
        vars(args).update(make_small())
    model, rows = load(args)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    options = ["--master=f32", "--clip-norm=1", "--remat=unit", f"--target={device}"]
    settings = {"options": options, "micro_batches": args.micro_batches, "check": args.check}
    optimizer = f"adamw,lr={args.lr},weight_decay=0.1"
    with fcdp.compile(model, (rows[: args.batch],), optimizer=optimizer, **settings) as step:
        sampler = DistributedSampler(rows, step.num_ranks, step.rank, seed=0, drop_last=True)
        loader = DataLoader(rows, args.micro_batches * args.batch, sampler=sampler, drop_last=True)
        step.schedule = f"cosine,warmup={len(loader) // 20},steps={len(loader)},min=0.1"
        for batch in loader:
            loss = step(batch).item()
            if step.rank == 0:
                sent = step.figures["inter_bytes"]
                print(f"step {step.num_steps}: loss {loss:.7f}, a node sent {sent:.0f} bytes", flush=True)
        trained = step.state_dict()
        if step.rank == 0:
            model.load_state_dict(trained)
            model.student.save_pretrained(args.out)


if __name__ == "__main__":
    main()
