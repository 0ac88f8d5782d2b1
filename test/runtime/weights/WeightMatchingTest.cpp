// SPDX-License-Identifier: Apache-2.0
#include "weights/WeightMatching.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace fcdp;

namespace {

using Names = std::vector<std::string>;

/// The names in one file.
struct File {
  Names stored;
  WeightOrigin origin{};
  bool isFallback = false;
};

/// Returns "FILE:NAME" for each of `wanted`; several with a comma between them,
/// and those that are not used after a bar.
Names match(const std::vector<TensorNames> &wanted,
            const std::vector<File> &files) {
  Names all;
  for (const TensorNames &names : wanted)
    all.insert(all.end(), names.begin(), names.end());
  std::vector<WeightNames> names;
  WeightSearch search;
  for (const File &file : files) {
    names.emplace_back(all, file.stored, file.origin);
    search.isFallback.push_back(file.isFallback);
  }
  auto listOf = [](const std::vector<WeightPlace> &places) {
    std::string text;
    for (const auto &[file, name] : places)
      text += (text.empty() ? "" : ", ") + std::to_string(file) + ":" + name;
    return text;
  };
  Names found;
  for (const WeightMatch &one : matchWeights(wanted, names, search))
    found.push_back(listOf(one.places) + (one.others.empty() ? "" : " | ") +
                    listOf(one.others));
  return found;
}

const WeightOrigin kOfPeft = {.isAdapter = true};

/// A model with an adapter that trains copies of two modules.
const std::vector<TensorNames> kStep = {
    {"base_model.model.m.embed.original_module.weight"},
    {"base_model.model.m.embed.modules_to_save.default.weight"},
    {"base_model.model.m.q.base_layer.weight"},
    {"base_model.model.m.q.lora_A.default.weight"}};
const File kBase = {{"m.embed.weight", "m.q.weight"}};
const File kTrained = {
    {"base_model.model.m.embed.weight", "base_model.model.m.q.lora_A.weight"},
    kOfPeft};

TEST(WeightMatchingTest, TheOrderOfFilesDoesNotDecide) {
  EXPECT_EQ(match(kStep, {kBase, kTrained}),
            (Names{"0:m.embed.weight", "1:base_model.model.m.embed.weight",
                   "0:m.q.weight", "1:base_model.model.m.q.lora_A.weight"}));
  EXPECT_EQ(match(kStep, {kTrained, kBase}),
            (Names{"1:m.embed.weight", "0:base_model.model.m.embed.weight",
                   "1:m.q.weight", "0:base_model.model.m.q.lora_A.weight"}));
}

TEST(WeightMatchingTest, AnEqualNameComesFirst) {
  EXPECT_EQ(match({{"net.m.a.weight"}, {"net.m.b.weight"}},
                  {{{"m.a.weight", "m.b.weight"}}, {{"net.m.b.weight"}}}),
            (Names{"0:m.a.weight", "1:net.m.b.weight | 0:m.b.weight"}));
}

TEST(WeightMatchingTest, AnArchiveGivesWhatIsInNoOtherFile) {
  File archive = {{}, {}, /*isFallback=*/true};
  for (const TensorNames &names : kStep)
    archive.stored.push_back(names.front());
  for (bool isFirst : {false, true}) {
    std::vector<File> files = {kBase, kTrained};
    files.insert(isFirst ? files.begin() : files.end(), archive);
    Names found = match(kStep, files);
    for (const std::string &name : found)
      EXPECT_FALSE(name.starts_with(isFirst ? "0" : "2")) << name;
  }
  EXPECT_EQ(match(kStep, {archive, kBase})[3],
            "0:base_model.model.m.q.lora_A.default.weight");
}

TEST(WeightMatchingTest, NewAdaptersCopyTheModel) {
  EXPECT_EQ(
      match(kStep, {kBase}),
      (Names{"0:m.embed.weight", "0:m.embed.weight", "0:m.q.weight", ""}));
  // One that was trained has a copy of its own.
  EXPECT_EQ(
      match(kStep,
            {kBase, {{"base_model.model.m.q.lora_A.weight"}, kOfPeft}})[1],
      "");
}

TEST(WeightMatchingTest, NamesOfATiedParameter) {
  const std::vector<TensorNames> tied = {{"embed.weight", "head.weight"}};
  EXPECT_EQ(match(tied, {{{"embed.weight", "head.weight"}}}),
            Names{"0:embed.weight, 0:head.weight"});
  EXPECT_EQ(match(tied, {{{"head.weight"}}, {{"embed.weight"}}}),
            Names{"0:head.weight, 1:embed.weight"});
  // An adapter around one of them makes its name less specific.
  EXPECT_EQ(match({{"base_model.model.m.embed.weight",
                    "base_model.model.m.head.base_layer.weight"}},
                  {{{"m.embed.weight", "m.head.weight"}}}),
            Names{"0:m.embed.weight, 0:m.head.weight"});
}

TEST(WeightMatchingTest, SeveralAdapters) {
  const std::vector<TensorNames> two = {{"m.q.lora_A.one.weight"},
                                        {"m.q.lora_A.two.weight"}};
  auto file = [](const std::string &adapter) {
    return File{{"m.q.lora_A.weight"}, {true, adapter}};
  };
  EXPECT_EQ(match(two, {file("two"), file("one")}),
            (Names{"1:m.q.lora_A.weight", "0:m.q.lora_A.weight"}));
  EXPECT_EQ(match(two, {file("one")}), (Names{"0:m.q.lora_A.weight", ""}));
  try {
    match(two, {file("")});
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ(error.what(),
                 "'m.q.lora_A.weight' could be 'm.q.lora_A.one.weight' and "
                 "'m.q.lora_A.two.weight' of the step; name the adapter that "
                 "the file has (NAME=PATH)");
  }
  // A tensor that has its own name does not serve another one.
  EXPECT_EQ(match(two, {{{"m.q.lora_A.one.weight"}}}),
            (Names{"0:m.q.lora_A.one.weight", ""}));
}

} // namespace
