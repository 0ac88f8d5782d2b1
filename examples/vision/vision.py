# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes the projector and the language model of LLaVA on images with texts. The vision tower is frozen.

example: torchrun --nproc-per-node=4 vision.py --data rows.jsonl --out trained
"""

import argparse
import json
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from transformers import AutoProcessor, LlavaConfig, LlavaForConditionalGeneration

import fcdp

IGNORED = -100  # a label that has no part in the loss


class Rows(Dataset):
    """The lines of a file, with the tokens and the pixels that the model's processor makes of them."""

    def __init__(self, path: str, processor: object, length: int):
        self.folder, self.lines = Path(path).parent, [json.loads(line) for line in open(path)]
        self.processor, self.length = processor, length

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        from PIL import Image

        line, eos = self.lines[i], self.processor.tokenizer.eos_token
        image, prompt = Image.open(self.folder / line["image"]), f"USER: <image>\n{line['prompt']} ASSISTANT:"
        made = self.processor(images=image, text=prompt, return_tensors="pt")
        prompt_ids = made["input_ids"][0].tolist()
        if len(prompt_ids) >= self.length:
            # A compiled step does not notice that tokens of an image are missing.
            expected = f"expected a prompt and an image of less than {self.length} tokens (--length)"
            raise ValueError(f"line {i + 1}: {expected}, got {len(prompt_ids)}")
        response = self.processor.tokenizer(f" {line['response']}{eos}", add_special_tokens=False)["input_ids"]
        ids = (prompt_ids + response + [0] * self.length)[: self.length]
        labels = ([IGNORED] * len(prompt_ids) + response + [IGNORED] * self.length)[: self.length]
        return {"input_ids": torch.tensor(ids), "pixel_values": made["pixel_values"][0], "labels": torch.tensor(labels)}


def freeze_tower(model: LlavaForConditionalGeneration) -> nn.Module:
    model.train().model.vision_tower.eval().requires_grad_(False)
    return model


def load(args: argparse.Namespace) -> tuple[nn.Module, Dataset]:
    model = LlavaForConditionalGeneration.from_pretrained(args.model, dtype=torch.bfloat16)
    return freeze_tower(model), Rows(args.data, AutoProcessor.from_pretrained(args.model), args.length)


def make_small(args: argparse.Namespace) -> tuple[nn.Module, list[dict[str, torch.Tensor]]]:
    """Returns a random small model, and images whose brightness is the answer."""
    args.batch, args.micro_batches, args.lr = 2, 2, 1e-2
    shape = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2}
    vision = {"model_type": "clip_vision_model", "image_size": 8, "patch_size": 4, **shape}
    text = {"model_type": "llama", "vocab_size": 64, **shape, "num_hidden_layers": 1}
    image = {"image_token_id": 63, "image_seq_length": 4}  # A patch is a token, and the class token is left out.
    model = LlavaForConditionalGeneration(LlavaConfig(vision_config=vision, text_config=text, **image))
    answers = torch.randint(8, (64,))
    ids = torch.cat((torch.full((64, 4), 63), torch.ones(64, 2, dtype=torch.int64), answers[:, None]), 1)
    pixels = (answers.float() / 4 - 1)[:, None, None, None].expand(-1, 3, 8, 8)
    labels = torch.where(torch.arange(7) < 6, IGNORED, ids)
    names = ("input_ids", "pixel_values", "labels")
    return freeze_tower(model), [dict(zip(names, row)) for row in zip(ids, pixels, labels)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="llava-hf/llava-1.5-7b-hf", help="a name on the Hub, or a folder")
    parser.add_argument("--data", help='a file with an {"image": FILE, "prompt": ..., "response": ...} on each line')
    parser.add_argument("--out", required=True, help="the folder for the trained model")
    parser.add_argument("--length", type=int, default=1024, help="tokens to which rows are padded or cut, 576 of the image")
    parser.add_argument("--batch", type=int, default=2, help="rows of a rank's micro-batch")
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--lr", type=float, default=2e-5)
    parser.add_argument("--check", action="store_true", help="compare a step of the whole model with eager PyTorch first")
    parser.add_argument("--small", action="store_true", help="a random small model and generated rows, to try it on CPUs")
    args = parser.parse_args()
    torch.manual_seed(0)  # Ranks start from the same values.
    model, rows = make_small(args) if args.small else load(args)
    example = {name: value.expand(args.batch, *value.shape) for name, value in rows[0].items()}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    options = ["--master=f32", "--clip-norm=1", "--remat=unit", f"--target={device}"]
    settings = {"options": options, "micro_batches": args.micro_batches, "check": args.check}
    optimizer = f"adamw,lr={args.lr},weight_decay=0"
    with fcdp.compile(model, example, optimizer=optimizer, **settings) as step:
        sampler = DistributedSampler(rows, step.num_ranks, step.rank, seed=0, drop_last=True)
        workers = 0 if args.small else 4  # They read images.
        of_step = args.micro_batches * args.batch
        loader = DataLoader(rows, of_step, sampler=sampler, drop_last=True, num_workers=workers)
        step.schedule = f"cosine,warmup={len(loader) // 20},steps={len(loader)}"
        for batch in loader:
            loss = step(**batch).item()
            if step.rank == 0:
                sent = step.figures["inter_bytes"]
                print(f"step {step.num_steps}: loss {loss:.7f}, a node sent {sent:.0f} bytes", flush=True)
        trained = step.state_dict()
        if step.rank == 0:
            model.load_state_dict(trained)
            model.save_pretrained(args.out)
            if not args.small:
                rows.processor.save_pretrained(args.out)


if __name__ == "__main__":
    main()
