# SPDX-License-Identifier: Apache-2.0
"""Facts about the models that do not come from the compiler."""

# Live ranges of each unit's parameters in a micro-batch, u: longest runs of uses that no other unit's use interrupts.
# A block is used in the forward and again in the backward pass. An embedding is read in the forward pass only. A head's
# two uses touch. A first layer that needs no gradient of its input is used once.
LIVE_RANGES: dict[str, dict[str, int]] = {
    "gpt": {"wte": 1, "wpe": 1, "blocks.0": 2, "blocks.1": 2, "ln_f": 2, "lm_head": 1},
    "tiny_params": {
        "": 2,  # scale is read before fc, shift after it
        "fc": 2,
    },
    "mlp_dropout": {"layers.0": 1, "layers.3": 1},
    "convnet_bn": {
        "conv1": 2,  # convolution_backward reads the weight even if the input's gradient is not needed
        "bn1": 2,
        "conv2": 2,
        "bn2": 2,
        "head": 1,
    },
    "unused_param": {"fc1": 1, "spare": 0, "fc2": 1},
    "rotary": {"fc1": 1, "fc2": 1},
    "hf_gpt2": {
        "transformer.wte": 2,  # embedding, and tied head
        "transformer.wpe": 1,
        "transformer.h.0": 2,
        "transformer.h.1": 2,
        "transformer.ln_f": 2,
    },
    "hf_llama": {
        "model.embed_tokens": 1,
        "model.layers.0": 2,
        "model.layers.1": 2,
        "model.norm": 2,
        "lm_head": 1,
    },
}
LIVE_RANGES["gpt_bf16"] = LIVE_RANGES["gpt"]
LIVE_RANGES["gpt_autocast"] = {f"body.{unit}": count for unit, count in LIVE_RANGES["gpt"].items()}
LIVE_RANGES["peft_lora"] = {f"base_model.model.{unit}": count for unit, count in LIVE_RANGES["hf_llama"].items()}

# Relative error of losses against plain PyTorch. In bfloat16 the order of a sum shows in the third digit.
LOSS_TOLERANCE = {name: 1e-5 for name in LIVE_RANGES} | {"gpt_bf16": 2e-2, "gpt_autocast": 2e-2}
