// SPDX-License-Identifier: Apache-2.0
//
// The rules of a step about the values and the sizes of its inputs.
#include "policy/InputRules.h"
#include "policy/EqualSizes.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace fcdp;

namespace {

using Tensors = std::vector<int32_t>;

class InputRulesTest : public ::testing::Test {
protected:
  InputRulesTest() {
    for (const char *name : {"mask", "positions"})
      addInput(name, {2, 4}, 0);
    for (uint32_t i = 0; i < 2; ++i) {
      auto &slot = *plan.slots.emplace_back(std::make_unique<plan::SlotT>());
      slot.kind = plan::SlotKind::input;
      slot.index = i;
    }
    plan.functions.push_back(std::make_unique<plan::FunctionT>());
  }

  void addInput(const char *name, Shape shape, uint32_t variant) {
    auto &input = *plan.inputs.emplace_back(std::make_unique<plan::InputT>());
    input.name = name;
    input.dtype = plan::DType::i64;
    input.shape = std::move(shape);
    input.variant = variant;
  }

  static std::unique_ptr<plan::ArgumentT> tensor(int32_t slot) {
    auto argument = std::make_unique<plan::ArgumentT>();
    argument->kind = plan::ArgumentKind::tensor;
    argument->slots = {slot};
    return argument;
  }
  static std::unique_ptr<plan::ArgumentT> number(double value) {
    auto argument = std::make_unique<plan::ArgumentT>();
    argument->kind = plan::ArgumentKind::float_number;
    argument->floats = {value};
    return argument;
  }

  /// Returns the slot of the result.
  int32_t call(const char *callee, const Tensors &tensors,
               std::optional<double> last = {}) {
    auto *body = new plan::AtenCallT;
    auto &op = *plan.ops.emplace_back(std::make_unique<plan::OpT>());
    op.body.type = plan::OpBody::aten_call;
    op.body.value = body; // which owns it
    body->callee = callee;
    for (int32_t slot : tensors)
      body->args.push_back(tensor(slot));
    if (last)
      body->args.push_back(number(*last));
    auto slot = int32_t(plan.slots.size());
    plan.slots.push_back(std::make_unique<plan::SlotT>());
    body->results = {slot};
    plan.functions[0]->end = plan.ops.size();
    return slot;
  }

  /// The loss, or `otherwise` if the condition does not hold.
  void guard(int32_t condition, double otherwise = NAN) {
    int32_t other = call("aten::scalar_tensor", {}, otherwise);
    call("aten::where", {condition, call("aten::mean", {0}), other});
  }

  std::string broken(InputRule rule, const std::vector<int64_t> &values) {
    std::vector<std::byte> bytes(values.size() * sizeof(int64_t));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return describeBrokenRule(rule, *plan.inputs[0], {2, 4}, bytes);
  }

  StepPlan plan;
};

TEST_F(InputRulesTest, OfOnes) {
  guard(call("aten::all", {call("aten::eq", {0}, 1)}));
  EXPECT_EQ(findInputRules(plan),
            (std::vector{InputRule::Ones, InputRule::None}));
}

TEST_F(InputRulesTest, OtherComputationsAreNone) {
  guard(call("aten::all", {call("aten::eq", {0}, 1)}), 0);
  guard(call("aten::all", {call("aten::eq", {0}, 2)}));
  guard(call("aten::any", {call("aten::eq", {0}, 1)}));
  int32_t slices =
      call("aten::sub", {call("aten::slice", {0}), call("aten::slice", {1})});
  guard(call("aten::all", {call("aten::eq", {slices}, 1)}));
  EXPECT_EQ(findInputRules(plan),
            (std::vector{InputRule::None, InputRule::None}));
}

TEST_F(InputRulesTest, SayTheElement) {
  EXPECT_EQ(broken(InputRule::Ones, {1, 1, 1, 1, 1, 1, 1, 1}), "");
  EXPECT_NE(
      broken(InputRule::Ones, {1, 1, 1, 1, 1, 0, 1, 1}).find("element 5 is 0"),
      std::string::npos);
  EXPECT_EQ(broken(InputRule::None, {3, 3, 3, 3, 3, 3, 3, 3}), "");
}

TEST_F(InputRulesTest, OfAnyType) {
  plan.inputs[0]->dtype = plan::DType::bf16;
  std::vector<uint16_t> ones(8, 0x3f80);
  auto said = [&] {
    return describeBrokenRule(InputRule::Ones, *plan.inputs[0], {2, 4},
                              std::as_bytes(std::span(ones)));
  };
  EXPECT_EQ(said(), "");
  ones[3] = 0x3f00;
  EXPECT_NE(said().find("element 3 is 0.5"), std::string::npos);
}

/// A step whose tokens and labels are of 2 rows of 2 or 4, beside 4 features.
class EqualSizesTest : public InputRulesTest {
protected:
  EqualSizesTest() {
    plan.inputs.clear();
    for (uint32_t variant = 0; variant < 2; ++variant) {
      plan.functions.push_back(std::make_unique<plan::FunctionT>());
      plan.functions.back()->role = plan::Role::only_microbatch;
      plan.functions.back()->variant = variant;
      const int64_t length = variant == 0 ? 2 : 4;
      addInput("ids", {2, length}, variant);
      addInput("positions", {length}, variant);
      addInput("x", {2, 4}, variant);
    }
    plan.functions.erase(plan.functions.begin());
  }

  std::string describe(const Shape &ids, const Shape &positions,
                       const Shape &x) {
    const Shape *shapes[] = {&ids, &positions, &x};
    return describeWrongSizes(
        plan, [&](size_t input) -> const Shape & { return *shapes[input]; });
  }
};

TEST_F(EqualSizesTest, AreEqualInEveryBatch) {
  EXPECT_EQ(describe({2, 3}, {3}, {2, 4}), "");
  EXPECT_NE(describe({2, 4}, {3}, {2, 4})
                .find("got size 4 of dimension 1 of input 'ids', and size 3 of "
                      "dimension 0 of input 'positions': expected equal ones"),
            std::string::npos);
  EXPECT_NE(describe({1, 4}, {4}, {2, 4}).find("of input 'x'"),
            std::string::npos);
  EXPECT_NE(describe({2, 0}, {0}, {2, 4})
                .find("got size 0 of dimension 1 of input 'ids': expected at "
                      "least 1"),
            std::string::npos);
  // 4 features are as many as the greatest length by chance.
  EXPECT_EQ(describe({1, 3}, {3}, {1, 3}), "");
}

} // namespace
