// SPDX-License-Identifier: Apache-2.0
//
// Goes through all operators of libtorch. Reads their schemas again from their
// text, by other means than the rules use.
#include "operators/OperatorRules.h"
#include "core/TextArguments.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <iostream>
#include <map>
#include <set>

using namespace fcdp;

namespace {

const std::map<OperatorRule, const char *> kNames = {
    {OperatorRule::Allowed, "allowed"},
    {OperatorRule::OtherLibrary, "of another library"},
    {OperatorRule::Writes, "changes an argument"},
    {OperatorRule::WritesSilently, "changes an argument silently"},
    {OperatorRule::NoTensor, "no tensor among the results"},
    {OperatorRule::Text, "takes a text that is no choice"},
    {OperatorRule::Object, "takes an object"}};

std::vector<const c10::FunctionSchema *> allSchemas() {
  std::vector<const c10::FunctionSchema *> schemas;
  c10::Dispatcher &dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName &name : dispatcher.getAllOpNames())
    if (auto found = dispatcher.findSchema(name))
      schemas.push_back(&found->schema());
  return schemas;
}

struct TextOfArgument {
  std::string type, name;
};

/// The parts of "aten::x.y(Tensor self, int n=1) -> Tensor".
struct SchemaText {
  explicit SchemaText(const c10::FunctionSchema &schema)
      : whole(toString(schema)) {
    const size_t open = whole.find('('), arrow = whole.rfind(") -> ");
    results = whole.substr(arrow + 5);
    int depth = 0;
    size_t begin = open + 1;
    for (size_t at = begin; at <= arrow; ++at) {
      if (at == arrow || (whole[at] == ',' && depth == 0)) {
        add(whole.substr(begin, at - begin));
        begin = at + 2;
      }
      depth += whole[at] == '(' || whole[at] == '[';
      depth -= whole[at] == ')' || whole[at] == ']';
    }
  }
  std::string whole, results;
  std::vector<TextOfArgument> arguments;

private:
  void add(std::string text) {
    if (text.empty() || text == "*")
      return;
    text = text.substr(0, text.find('='));
    size_t space = text.rfind(' ');
    arguments.push_back({text.substr(0, space), text.substr(space + 1)});
  }
};

/// "Tensor" of "Tensor?[]" and of "Tensor(a)".
std::string withoutForm(const std::string &type) {
  return type.substr(0, type.find_first_of("?[("));
}

OperatorRule ruleOf(const std::string &name, const std::string &overload = "") {
  return fcdp::ruleOf(c10::Dispatcher::singleton()
                          .findSchemaOrThrow(name.c_str(), overload.c_str())
                          .schema());
}

/// Types of arguments that an allowed operator may have.
const std::set<std::string> kPlain = {
    "Tensor", "int",        "SymInt", "float",        "bool",  "Scalar",
    "str",    "ScalarType", "Layout", "MemoryFormat", "Device"};

void checkAllowed(const SchemaText &text) {
  EXPECT_TRUE(text.whole.starts_with("aten::")) << text.whole;
  EXPECT_NE(text.results.find("Tensor"), std::string::npos) << text.whole;
  for (const auto &[type, name] : text.arguments) {
    EXPECT_EQ(type.find('!'), std::string::npos) << text.whole;
    EXPECT_TRUE(kPlain.count(withoutForm(type)) || type == "Generator?")
        << type << " of " << text.whole;
    if (withoutForm(type) == "str") {
      EXPECT_TRUE(isChoice(name)) << text.whole;
    }
  }
}

} // namespace

// The output has the rule of each that is refused by one of the rarer rules,
// and how many the others hold for.
TEST(OperatorRules, EveryOperatorOfLibtorchHasOne) {
  std::map<OperatorRule, std::vector<std::string>> found;
  for (const c10::FunctionSchema *schema : allSchemas()) {
    const SchemaText text(*schema);
    OperatorRule rule = fcdp::ruleOf(*schema);
    found[rule].push_back(text.whole.substr(0, text.whole.find('(')));
    if (rule == OperatorRule::Allowed)
      checkAllowed(text);
  }
  for (const auto &[rule, names] : found) {
    std::cout << names.size() << " operators: " << kNames.at(rule) << "\n";
    for (const std::string &name : names)
      if (names.size() < 20)
        std::cout << "  " << name << "\n";
  }
  EXPECT_EQ(found.size(), kNames.size());
}

TEST(OperatorRules, AreThoseOfOperatorsWithEffects) {
  EXPECT_EQ(ruleOf("aten::from_file"), OperatorRule::Text);
  EXPECT_EQ(ruleOf("aten::from_file", "out"), OperatorRule::Text);
  EXPECT_EQ(ruleOf("aten::_print"), OperatorRule::NoTensor);
  EXPECT_EQ(ruleOf("aten::record_stream"), OperatorRule::NoTensor);
  EXPECT_EQ(ruleOf("aten::_local_scalar_dense"), OperatorRule::NoTensor);
  EXPECT_EQ(ruleOf("aten::set", "source_Storage"), OperatorRule::Object);
  EXPECT_EQ(ruleOf("aten::set_"), OperatorRule::Writes);
  EXPECT_EQ(ruleOf("aten::resize_"), OperatorRule::Writes);
  EXPECT_EQ(ruleOf("aten::add", "out"), OperatorRule::Writes);
  EXPECT_EQ(ruleOf("aten::embedding_renorm_"), OperatorRule::Writes);
}

TEST(OperatorRules, NormsThatChangeRunningStatistics) {
  for (const char *name :
       {"aten::batch_norm", "aten::native_batch_norm", "aten::cudnn_batch_norm",
        "aten::miopen_batch_norm", "aten::_batch_norm_impl_index",
        "aten::instance_norm", "aten::batch_norm_update_stats",
        "aten::batch_norm_gather_stats",
        "aten::batch_norm_gather_stats_with_counts"})
    EXPECT_EQ(ruleOf(name), OperatorRule::WritesSilently) << name;
  for (const char *name :
       {"aten::_native_batch_norm_legit_no_training",
        "aten::_batch_norm_with_update_functional",
        "aten::_batch_norm_no_update", "aten::native_batch_norm_backward",
        "aten::batch_norm_backward", "aten::cudnn_batch_norm_backward"})
    EXPECT_EQ(ruleOf(name), OperatorRule::Allowed) << name;
}

TEST(OperatorRules, AllowWhatStepsNeed) {
  for (const char *name :
       {"aten::mm", "aten::native_layer_norm", "aten::embedding", "aten::gelu",
        "aten::native_dropout", "aten::_native_batch_norm_legit_functional",
        "aten::_scaled_dot_product_flash_attention_for_cpu"})
    EXPECT_EQ(ruleOf(name), OperatorRule::Allowed) << name;
}

/// A call writes to `out` only where the compiler has it do so.
TEST(OperatorRules, AllowAResultInPlaceOfAnother) {
  const c10::FunctionSchema &schema = c10::Dispatcher::singleton()
                                          .findSchemaOrThrow("aten::mm", "out")
                                          .schema();
  plan::AtenCallT call;
  call.callee = "aten::mm";
  call.overload = "out";
  EXPECT_NE(refusalOf(call, schema), "");
  call.functional = "default";
  EXPECT_EQ(refusalOf(call, schema), "");
  call.functional = "none_of_its_overloads";
  EXPECT_NE(refusalOf(call, schema), "");
}
