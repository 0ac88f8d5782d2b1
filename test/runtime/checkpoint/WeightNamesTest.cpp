// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/WeightNames.h"

#include <gtest/gtest.h>

using namespace fcdp;

namespace {

using Names = std::vector<std::string>;

/// Returns the stored names that are found for `wanted`; "" for none.
Names findAll(const Names &wanted, const Names &stored) {
  WeightNames names(wanted, stored);
  Names found;
  for (const std::string &name : wanted) {
    const std::string *one = names.find(name);
    found.push_back(one ? *one : "");
  }
  return found;
}

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

TEST(WeightNamesTest, WithoutWrappers) {
  EXPECT_EQ(withoutWrappers("_orig_mod.a._fsdp_wrapped_module.weight"),
            "a.weight");
  EXPECT_EQ(withoutWrappers("a.modules_to_save.default.weight"), "a.weight");
  EXPECT_EQ(withoutWrappers("default.weight"), "default.weight");
  EXPECT_EQ(withoutWrappers("weight"), "weight");
}

TEST(WeightNamesTest, DontGuessBetweenEqualChoices) {
  EXPECT_EQ(findAll({"one.fc.weight", "two.fc.weight"}, {"fc.weight"}),
            (Names{"", ""}));
  EXPECT_EQ(
      findAll({"q.weight"}, {"q.base_layer.weight", "q._orig_mod.weight"}),
      (Names{""}));
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
