# SPDX-License-Identifier: Apache-2.0
"""Exports a training step of Llama 3 8B for fcdp-sim, without weights, with all parameters trained or with LoRA.

example: python examples/simulate/llama_8b.py --out llama.pt2
"""

import argparse
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import fcdp

# Table 3 of The Llama 3 Herd of Models, arXiv 2407.21783.
SHAPES: dict[str, Any] = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="the archive to write")
    parser.add_argument(
        "--lora", action="store_true", help="train factors of rank 16 of all linear layers in blocks alone"
    )
    parser.add_argument("--sequence", type=int, default=2048, help="tokens of a rank's micro-batch (default 2048)")
    parser.add_argument("--layers", type=int, default=32, help="number of blocks (default 32)")
    args = parser.parse_args()
    config = LlamaConfig(
        num_hidden_layers=args.layers, use_cache=False, max_position_embeddings=args.sequence, **SHAPES
    )
    with fcdp.empty_weights():
        model = fcdp.cast_parameters(LlamaForCausalLM(config).train(), torch.bfloat16)
        if args.lora:
            model = add_lora(model)
    ids = torch.zeros(1, args.sequence, dtype=torch.int64)
    fcdp.export(model, {"input_ids": ids, "labels": ids.clone()}, args.out, check=False)


def add_lora(model: torch.nn.Module) -> torch.nn.Module:
    from peft import LoraConfig, get_peft_model

    settings = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    return get_peft_model(model, settings, autocast_adapter_dtype=False)


if __name__ == "__main__":
    main()
