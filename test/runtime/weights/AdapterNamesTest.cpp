// SPDX-License-Identifier: Apache-2.0
#include "weights/AdapterNames.h"

#include <gtest/gtest.h>

using namespace fcdp;

namespace {

void expectName(const char *text, TensorKind kind, const char *adapter,
                const char *stored, const char *base) {
  TensorName name = parseTensorName(text);
  EXPECT_EQ(name.kind, kind) << text;
  EXPECT_EQ(name.adapter, adapter) << text;
  EXPECT_EQ(name.stored, stored) << text;
  EXPECT_EQ(name.base, base) << text;
}

void expectAdapter(const char *text, const char *adapter, const char *stored) {
  expectName(text, TensorKind::Adapter, adapter, stored, stored);
}

// Each pair is one of PEFT's get_peft_model_state_dict.
TEST(AdapterNamesTest, PeftStoresAdaptersWithoutTheirName) {
  expectAdapter("m.q.lora_A.default.weight", "default", "m.q.lora_A.weight");
  expectAdapter("m.q.lora_B.other.bias", "other", "m.q.lora_B.bias");
  expectAdapter("m.e.lora_embedding_A.default", "default",
                "m.e.lora_embedding_A");
  expectAdapter("m.q.lora_magnitude_vector.default.weight", "default",
                "m.q.lora_magnitude_vector");
  expectAdapter("m.q.lora_magnitude_vector.default", "default",
                "m.q.lora_magnitude_vector");
  expectAdapter("m.experts.base_layer.lora_A.default.weight", "default",
                "m.experts.base_layer.lora_A.weight");
  expectAdapter("m.k.ia3_l.default", "default", "m.k.ia3_l");
  expectAdapter("m.e.token_adapter.trainable_tokens_delta.default", "default",
                "m.e.token_adapter.trainable_tokens_delta");
  expectAdapter("base_model.vera_A.default", "default", "base_model.vera_A");
  expectAdapter("prompt_encoder.default.embedding.weight", "default",
                "prompt_embeddings");
  for (const char *stored :
       {"m.q.lora_A.weight", "m.q.lora_B.bias", "m.e.lora_embedding_A",
        "m.q.lora_magnitude_vector", "m.experts.lora_A.weight", "m.k.ia3_l",
        "prompt_embeddings"})
    expectAdapter(stored, "", stored);
}

TEST(AdapterNamesTest, ModulesOfTheModelAroundWhichAdaptersAre) {
  expectName("m.embed.modules_to_save.other.weight", TensorKind::Copy, "other",
             "m.embed.weight", "m.embed.weight");
  expectName("m.embed.original_module.weight", TensorKind::Original, "",
             "m.embed.original_module.weight", "m.embed.weight");
  expectName("m.q.base_layer.weight", TensorKind::Base, "",
             "m.q.base_layer.weight", "m.q.weight");
  expectName("m.embed.token_adapter.base_layer.weight", TensorKind::Base, "",
             "m.embed.token_adapter.base_layer.weight", "m.embed.weight");
}

TEST(AdapterNamesTest, WrappersOfTorch) {
  expectName("_orig_mod.a._fsdp_wrapped_module.weight", TensorKind::Base, "",
             "a.weight", "a.weight");
  expectAdapter("_orig_mod.a.lora_A._checkpoint_wrapped_module.x.weight", "x",
                "a.lora_A.weight");
}

TEST(AdapterNamesTest, OtherNamesStayAsTheyAre) {
  for (const char *name :
       {"", ".", "..", "weight", "default.weight", "a.modules_to_save",
        "a.modules_to_save.weight", "a.lora_A.b.c.weight", "prompt.weight"})
    expectName(name, TensorKind::Base, "", name, name);
}

} // namespace
