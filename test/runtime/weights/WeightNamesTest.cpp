// SPDX-License-Identifier: Apache-2.0
#include "weights/WeightNames.h"

#include <gtest/gtest.h>

using namespace fcdp;

namespace {

using Names = std::vector<std::string>;

/// Returns the stored name that is the most like each of `wanted`; "" for none,
/// and several with a comma between them.
Names findAll(const Names &wanted, const Names &stored,
              const WeightOrigin &origin = {}) {
  WeightNames names(wanted, stored, origin);
  Names found;
  for (const std::string &name : wanted) {
    Names all;
    for (size_t i = 0; i < kNumLikenesses && all.empty(); ++i)
      all = names.find(name, Likeness(i));
    std::string text;
    for (const std::string &one : all)
      text += (text.empty() ? "" : ", ") + one;
    found.push_back(text);
  }
  return found;
}

const WeightOrigin kAdapter = {.isAdapter = true};

TEST(WeightNamesTest, EqualNamesAreTakenAsTheyAre) {
  Names names = {"a.weight", "model.a.weight", "lora_A.default.weight"};
  EXPECT_EQ(findAll(names, names), names);
}

TEST(WeightNamesTest, AModuleAroundTheModel) {
  EXPECT_EQ(findAll({"model.model.layers.0.fc.weight", "model.head.weight"},
                    {"model.layers.0.fc.weight", "head.weight", "other"}),
            (Names{"model.layers.0.fc.weight", "head.weight"}));
}

TEST(WeightNamesTest, AModelInsideTheStoredOne) {
  EXPECT_EQ(findAll({"layers.0.fc.weight", "norm.weight"},
                    {"model.layers.0.fc.weight", "model.norm.weight", "head"}),
            (Names{"model.layers.0.fc.weight", "model.norm.weight"}));
}

TEST(WeightNamesTest, BothPrefixesDiffer) {
  EXPECT_EQ(findAll({"backbone.h.0.fc.weight", "backbone.norm.weight"},
                    {"model.h.0.fc.weight", "model.norm.weight"}),
            (Names{"model.h.0.fc.weight", "model.norm.weight"}));
}

TEST(WeightNamesTest, WrappersOfPeft) {
  Names wanted = {"base_model.model.model.q.base_layer.weight",
                  "base_model.model.model.k.weight",
                  "base_model.model.model.q.lora_A.default.weight"};
  EXPECT_EQ(findAll(wanted, {"model.q.weight", "model.k.weight"}),
            (Names{"model.q.weight", "model.k.weight", ""}));
  EXPECT_EQ(findAll(wanted, {"base_model.model.model.q.lora_A.weight"}),
            (Names{"", "", "base_model.model.model.q.lora_A.weight"}));
}

TEST(WeightNamesTest, AnAdapterHasTheCopyAndTheBaseTheOriginal) {
  Names wanted = {"base_model.model.m.embed.original_module.weight",
                  "base_model.model.m.embed.modules_to_save.default.weight",
                  "base_model.model.m.q.base_layer.bias"};
  EXPECT_EQ(findAll(wanted,
                    {"base_model.model.m.embed.weight",
                     "base_model.model.m.q.base_layer.bias"},
                    kAdapter),
            (Names{"", "base_model.model.m.embed.weight",
                   "base_model.model.m.q.base_layer.bias"}));
  EXPECT_EQ(findAll(wanted, {"m.embed.weight", "m.q.bias"}),
            (Names{"m.embed.weight", "m.embed.weight", "m.q.bias"}));
}

TEST(WeightNamesTest, AdaptersInsideTheModelAreStoredWithPeftsBeginning) {
  EXPECT_EQ(findAll({"m.q.lora_A.default.weight", "m.q.base_layer.weight",
                     "m.head.modules_to_save.default.weight"},
                    {"base_model.model.m.q.lora_A.weight",
                     "base_model.model.m.head.weight"},
                    kAdapter),
            (Names{"base_model.model.m.q.lora_A.weight", "",
                   "base_model.model.m.head.weight"}));
}

TEST(WeightNamesTest, AnAdapterIsForItsNameAlone) {
  Names wanted = {"m.q.lora_A.one.weight", "m.q.lora_A.two.weight"};
  EXPECT_EQ(findAll(wanted, {"m.q.lora_A.weight"},
                    {.isAdapter = true, .adapter = "two"}),
            (Names{"", "m.q.lora_A.weight"}));
  // A whole model may have the adapter under another name.
  EXPECT_EQ(findAll({"m.q.lora_A.one.weight"}, {"m.q.lora_A.other.weight"}),
            Names{"m.q.lora_A.other.weight"});
}

TEST(WeightNamesTest, DontGuessBetweenEqualChoices) {
  EXPECT_EQ(findAll({"one.fc.weight", "two.fc.weight"}, {"fc.weight"}),
            (Names{"", ""}));
  // The shorter beginning is no better one.
  EXPECT_EQ(findAll({"one.fc.weight", "three.fc.weight"}, {"fc.weight"}),
            (Names{"", ""}));
  EXPECT_EQ(WeightNames({"one.fc.weight", "two.fc.weight"}, {"fc.weight"})
                .undecided(),
            (Names{"one.", "two."}));
  EXPECT_EQ(findAll({"q.weight"},
                    {"q._fsdp_wrapped_module.weight", "q._orig_mod.weight"}),
            Names{"q._fsdp_wrapped_module.weight, q._orig_mod.weight"});
}

TEST(WeightNamesTest, AFileForOneModule) {
  Names wanted = {"student.fc.weight", "teacher.fc.weight",
                  "teacher.q.lora_A.default.weight", "teacher2.fc.weight"};
  WeightOrigin teacher = {.module = "teacher."};
  EXPECT_EQ(findAll(wanted, {"fc.weight"}, teacher),
            (Names{"", "fc.weight", "", ""}));
  EXPECT_EQ(findAll(wanted, {"model.fc.weight"}, teacher),
            (Names{"", "model.fc.weight", "", ""}));
  // A file of the whole step has other names than its module.
  EXPECT_EQ(findAll(wanted, {"student.fc.weight"}, teacher),
            (Names{"", "student.fc.weight", "", ""}));
  WeightOrigin adapter = {.isAdapter = true, .module = "teacher."};
  EXPECT_EQ(findAll(wanted, {"base_model.model.q.lora_A.weight"}, adapter),
            (Names{"", "", "base_model.model.q.lora_A.weight", ""}));
  // A name in the module decides where the whole name did not.
  EXPECT_EQ(WeightNames(wanted, {"model.fc.weight"}, teacher).undecided(),
            Names{});
}

TEST(WeightNamesTest, DontMatchByTheLastComponentAlone) {
  EXPECT_EQ(findAll({"a.weight"}, {"b.weight"}), (Names{""}));
}

TEST(WeightNamesTest, HostileNames) {
  EXPECT_EQ(findAll({"", ".", "..", "a..b"}, {".", "", "..", "a..b"}),
            (Names{"", ".", "..", "a..b"}));
  std::string deep(100'000, '.');
  EXPECT_EQ(findAll({deep + "a"}, {deep + "a", deep}), Names{deep + "a"});
}

} // namespace
