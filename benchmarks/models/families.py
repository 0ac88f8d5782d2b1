# SPDX-License-Identifier: Apache-2.0
"""Small models of Transformers by the name of their family, with the inputs that they train on."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import transformers  # noqa: E402

BATCH, TIME, VOCABULARY, IMAGE, CLASSES = 2, 16, 128, 32, 5

# A configuration takes those that it has.
SMALL = {
    "hidden_size": 32, "n_embd": 32, "d_model": 32, "embed_dim": 32, "word_embed_proj_dim": 32, "embedding_size": 32,
    "num_hidden_layers": 2, "n_layer": 2, "num_layers": 2, "n_layers": 2, "encoder_layers": 2, "decoder_layers": 2,
    "num_decoder_layers": 2, "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "d_kv": 8,
    "intermediate_size": 64, "n_inner": 64, "ffn_dim": 64, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "d_ff": 64,
    "ffn_hidden_size": 64, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32,
    "vocab_size": VOCABULARY, "max_position_embeddings": 64, "n_positions": 64, "n_ctx": 64, "max_seq_len": 64,
    "max_sequence_length": 64, "num_local_experts": 4, "num_experts": 4, "n_routed_experts": 4,
    "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "q_lora_rank": 16, "kv_lora_rank": 16,
    "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "rotary_dim": 4, "sliding_window": 8,
    "state_size": 8, "mamba_d_state": 8, "image_size": IMAGE, "patch_size": 8, "num_labels": CLASSES,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 0,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
}  # fmt: skip
DROPOUTS = ("dropout", "drop", "pdrop", "dropout_prob", "dropout_rate")


def tokens(generator: torch.Generator) -> dict[str, torch.Tensor]:
    ids = torch.randint(3, VOCABULARY, (BATCH, TIME), generator=generator)
    labels = torch.randint(3, VOCABULARY, (BATCH, TIME), generator=generator)
    return {"input_ids": ids, "labels": labels}


def images(generator: torch.Generator) -> dict[str, torch.Tensor]:
    pixels = torch.randn(BATCH, 3, IMAGE, IMAGE, generator=generator)
    return {"pixel_values": pixels, "labels": torch.randint(CLASSES, (BATCH,), generator=generator)}


@dataclass(frozen=True)
class Family:
    """`auto` is the class of Transformers that makes a model of a configuration; `settings` are those beside SMALL."""

    auto: str = "AutoModelForCausalLM"
    inputs: Callable[[torch.Generator], dict[str, torch.Tensor]] = tokens
    settings: dict[str, Any] = field(default_factory=dict)

    def build(self, name: str) -> nn.Module:
        torch.manual_seed(0)
        config = transformers.AutoConfig.for_model(name)
        given = {key: value for key, value in SMALL.items() if hasattr(config, key)} | self.settings
        config = transformers.AutoConfig.for_model(name, **given)
        for key, value in vars(config).items():
            if any(key.endswith(end) for end in DROPOUTS) and isinstance(value, float):
                setattr(config, key, 0.0)
        if hasattr(config, "use_cache"):
            config.use_cache = False
        return getattr(transformers, self.auto).from_config(config)


MASKED, IMAGES = "AutoModelForMaskedLM", "AutoModelForImageClassification"
TWO_STAGES = {"hidden_sizes": [8, 16], "depths": [1, 1]}

DECODERS = (
    "gpt2 opt gpt_neox gptj bloom mpt llama mistral qwen2 qwen3 gemma gemma2 gemma3_text phi phi3 stablelm starcoder2 olmo2 granite "
    "cohere smollm3 nemotron glm4 exaone4"
).split()
RECURRENT = "mamba falcon_mamba rwkv".split()
EXPERTS = "mixtral qwen2_moe qwen3_moe qwen3_next olmoe gpt_oss".split()
ENCODERS = "bert roberta electra deberta-v2 modernbert".split()

FAMILIES = {
    **dict.fromkeys(DECODERS + RECURRENT + EXPERTS, Family()),
    "deepseek_v3": Family(settings={"num_key_value_heads": 4}),
    **dict.fromkeys(ENCODERS, Family(MASKED)),
    "bart": Family("AutoModelForSeq2SeqLM"),
    "vit": Family(IMAGES, images),
    "dinov2": Family(IMAGES, images),
    "resnet": Family(IMAGES, images, TWO_STAGES | {"embedding_size": 8, "layer_type": "basic"}),
    "convnext": Family(IMAGES, images, TWO_STAGES | {"num_stages": 2}),
}
