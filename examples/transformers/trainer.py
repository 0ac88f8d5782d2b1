# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a language model with Transformers' Trainer, whose steps fcdp compiles.

example: torchrun --nproc-per-node=2 trainer.py --text FILE --out trained
"""

import argparse

from transformers import AutoModelForCausalLM, AutoTokenizer, TrainingArguments, default_data_collator

from fcdp.integrations.transformers import CompiledTrainer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="HuggingFaceTB/SmolLM2-135M", help="a name on the Hub, or a folder")
    parser.add_argument("--text", required=True, help="a file with an example on each line")
    parser.add_argument("--out", required=True, help="the folder for checkpoints and the trained model")
    parser.add_argument("--length", type=int, default=128, help="tokens to which a line is padded or cut (default 128)")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--resume", action="store_true", help="go on from the latest checkpoint in the folder")
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.model)

    def row(line: str) -> dict[str, list[int]]:
        # All rows have one length. Padding is on the right, where a causal model does not see it, and has no label.
        tokens = tokenizer(line)["input_ids"][: args.length]
        rest = args.length - len(tokens)
        return {"input_ids": tokens + [0] * rest, "labels": tokens + [-100] * rest}

    rows = [row(line) for line in open(args.text) if line.strip()]
    held_out = len(rows) // 10
    arguments = TrainingArguments(
        output_dir=args.out,
        use_cpu=True,  # of the Trainer: the compiled step chooses the GPU by itself
        max_steps=args.steps,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        learning_rate=3e-4,
        weight_decay=0.1,
        lr_scheduler_type="cosine",
        warmup_steps=args.steps // 20,
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=50,
        save_steps=50,
        dataloader_drop_last=True,
    )
    model = AutoModelForCausalLM.from_pretrained(args.model)
    data = {"train_dataset": rows[held_out:], "eval_dataset": rows[:held_out], "data_collator": default_data_collator}
    trainer = CompiledTrainer(model, arguments, **data, processing_class=tokenizer, step_options={"strategy": "fcdp"})
    trainer.train(resume_from_checkpoint=args.resume)
    trainer.save_model()


main()
