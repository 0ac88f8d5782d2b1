// SPDX-License-Identifier: Apache-2.0
#include "operators/ArgConversion.h"
#include "operators/PreparedOp.h"
#include "step/LocalBackend.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

namespace fcdp {
/// The preparation of a call alone, which AtenCall.cpp defines.
PreparedOpPtr prepare(const plan::AtenCallT &op, const char *what,
                      StepState &state);
} // namespace fcdp

using namespace fcdp;

namespace {

/// The value of an argument.
struct Arg : plan::ArgumentT {
  using Kind = plan::ArgumentKind;

  Arg() = default; // none
  Arg(int64_t value) {
    kind = Kind::integer;
    integers = {value};
  }
  Arg(bool value) {
    kind = Kind::boolean;
    integers = {value};
  }
  Arg(double value) {
    kind = Kind::float_number;
    floats = {value};
  }
  Arg(std::vector<int64_t> values) {
    kind = Kind::integers;
    integers = std::move(values);
  }
  Arg(std::vector<double> values) {
    kind = Kind::float_numbers;
    floats = std::move(values);
  }
  Arg(const std::vector<bool> &values) {
    kind = Kind::booleans;
    integers.assign(values.begin(), values.end());
  }
  Arg(plan::DType type) {
    kind = Kind::dtype;
    dtype = type;
  }
  Arg(plan::Layout value) {
    kind = Kind::layout;
    layout = value;
  }
  Arg(plan::MemoryFormat value) {
    kind = Kind::memory_format;
    memoryFormat = value;
  }
};

Arg t(int32_t slot) {
  Arg value;
  value.kind = Arg::Kind::tensor;
  value.slots = {slot};
  return value;
}

Arg tensors(std::vector<int32_t> slots) {
  Arg value;
  value.kind = Arg::Kind::tensors;
  value.slots = std::move(slots);
  return value;
}

Arg text(const std::string &text, Arg::Kind kind = Arg::Kind::text) {
  Arg value;
  value.kind = kind;
  value.text = text;
  return value;
}

using Args = std::vector<std::pair<std::string, Arg>>;
using Ints = std::vector<int64_t>;

plan::AtenCallT makeCall(const std::string &callee, const std::string &overload,
                         const Args &args, std::vector<int32_t> results) {
  plan::AtenCallT call;
  call.callee = callee;
  call.overload = overload;
  for (const auto &[name, value] : args) {
    call.args.push_back(std::make_unique<plan::ArgumentT>(value));
    call.args.back()->name = name;
  }
  call.results = std::move(results);
  return call;
}

/// Slots 0 to 3 hold arange(6) as [2, 3], ones [2, 3], an index [1, 0], and
/// nothing; results go to 4 and on.
class AtenCallTest : public ::testing::Test {
protected:
  AtenCallTest() {
    state.slots.resize(8);
    state.slots[0] = at::arange(6, at::kFloat).view({2, 3});
    state.slots[1] = at::ones({2, 3});
    state.slots[2] = at::arange(1, -1, -1, at::kLong);
  }

  const at::Tensor &call(const std::string &callee, const std::string &overload,
                         Args args, std::vector<int32_t> results = {4}) {
    op = makeCall(callee, overload, args, std::move(results));
    prepare(op, "", state)->run(state);
    return state.slots[4];
  }

  void expectError(const std::string &message, const std::string &callee,
                   const std::string &overload, Args args,
                   std::vector<int32_t> results = {4}) {
    try {
      call(callee, overload, std::move(args), std::move(results));
      FAIL() << "expected an error";
    } catch (const std::exception &error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos)
          << error.what();
    }
  }

  StepPlan plan;
  test::LocalBackend backend{0, 0};
  StepState state{plan, backend, {}, {}, {}, {}, {}, {}};
  plan::AtenCallT op;
};

TEST_F(AtenCallTest, RefusesAViewThatThePlanTakesForNewMemory) {
  op = makeCall("aten::t", "", {{"self", t(0)}}, {4});
  op.alias = plan::Alias::fresh;
  EXPECT_THROW(prepare(op, "", state), std::runtime_error);
  op.alias = plan::Alias::unknown;
  EXPECT_NO_THROW(prepare(op, "", state));
  op = makeCall("aten::neg", "", {{"self", t(0)}}, {4});
  op.alias = plan::Alias::fresh;
  EXPECT_NO_THROW(prepare(op, "", state));
}

TEST_F(AtenCallTest, TensorsAndDefaults) {
  EXPECT_TRUE(call("aten::add", "Tensor", {{"self", t(0)}, {"other", t(1)}})
                  .equal(state.slots[0].add(1)));
}

TEST_F(AtenCallTest, ScalarFromIntegerFloatAndBool) {
  Args args = {{"self", t(1)}, {"other", t(1)}, {"alpha", int64_t(3)}};
  EXPECT_EQ(call("aten::add", "Tensor", args).sum().item().toDouble(), 24);
  args[2].second = 0.5;
  EXPECT_EQ(call("aten::add", "Tensor", args).sum().item().toDouble(), 9);
  EXPECT_EQ(call("aten::mul", "Scalar", {{"self", t(1)}, {"other", true}})
                .sum()
                .item()
                .toDouble(),
            6);
}

TEST_F(AtenCallTest, NumberInATensorsPlaceDoesNotPromote) {
  state.slots[1] = state.slots[1].to(at::kBFloat16);
  const at::Tensor &result =
      call("aten::mul", "Tensor", {{"self", t(1)}, {"other", 2.5}});
  EXPECT_EQ(result.scalar_type(), at::kBFloat16);
  EXPECT_EQ(result.sum().item().toDouble(), 15);
}

TEST_F(AtenCallTest, IntegersAndLists) {
  EXPECT_EQ(
      call("aten::view", "", {{"self", t(0)}, {"size", Ints{3, 2}}}).sizes(),
      at::IntArrayRef({3, 2}));
  EXPECT_EQ(call("aten::transpose", "int",
                 {{"self", t(0)}, {"dim0", int64_t(0)}, {"dim1", int64_t(1)}})
                .sizes(),
            at::IntArrayRef({3, 2}));
  EXPECT_EQ(call("aten::sum", "dim_IntList",
                 {{"self", t(0)}, {"dim", Ints{0}}, {"keepdim", true}})
                .sizes(),
            at::IntArrayRef({1, 3}));
}

TEST_F(AtenCallTest, OneIntegerForAListOfFixedLength) {
  state.slots[0] = at::ones({1, 1, 4, 4});
  EXPECT_EQ(call("aten::avg_pool2d", "",
                 {{"self", t(0)}, {"kernel_size", int64_t(2)}})
                .sizes(),
            at::IntArrayRef({1, 1, 2, 2}));
}

TEST_F(AtenCallTest, NoneForOptionals) {
  EXPECT_EQ(
      call("aten::sum", "dim_IntList", {{"self", t(0)}, {"dim", Arg()}}).dim(),
      0);
  EXPECT_NO_THROW(call("aten::native_layer_norm", "",
                       {{"input", t(0)},
                        {"normalized_shape", Ints{3}},
                        {"weight", Arg()},
                        {"bias", Arg()},
                        {"eps", 1e-5}},
                       {4, -1, 6}));
  EXPECT_FALSE(state.slots[5].defined());
  EXPECT_TRUE(state.slots[6].defined());
}

TEST_F(AtenCallTest, NoneForATensorIsUndefined) {
  c10::IValue value =
      toIValue(Arg(), c10::Argument("x", c10::TensorType::get()));
  ASSERT_TRUE(value.isTensor());
  EXPECT_FALSE(value.toTensor().defined());
}

TEST_F(AtenCallTest, SlotForAnOptionalTensor) {
  state.slots[5] = at::full({3}, 2.0);
  const at::Tensor &result = call("aten::native_layer_norm", "",
                                  {{"input", t(0)},
                                   {"normalized_shape", Ints{3}},
                                   {"weight", t(5)},
                                   {"bias", t(3)}, // an empty slot
                                   {"eps", int64_t(0)}},
                                  {4, -1, -1});
  EXPECT_NEAR(result[0][2].item().toDouble(), 2 * 1.2247449, 1e-5);
}

TEST_F(AtenCallTest, ListOfTensors) {
  Args args = {{"tensors", tensors({0, 1})}, {"dim", int64_t(1)}};
  EXPECT_EQ(call("aten::cat", "", args).sizes(), at::IntArrayRef({2, 6}));
}

TEST_F(AtenCallTest, ListsLetGoOfTheirTensors) {
  op = makeCall("aten::cat", "", {{"tensors", tensors({0, 1})}}, {4});
  auto prepared = prepare(op, "", state);
  prepared->run(state);
  EXPECT_EQ(state.slots[1].use_count(), 1u);
  prepared->run(state);
  EXPECT_EQ(state.slots[4].size(0), 4);
}

TEST_F(AtenCallTest, ListOfOptionalTensors) {
  Args args = {{"self", t(0)}, {"indices", tensors({-1, 2})}};
  const at::Tensor &result = call("aten::index", "Tensor", args);
  EXPECT_EQ(result.sizes(), at::IntArrayRef({2, 2}));
  EXPECT_EQ(result[0][0].item().toDouble(), 1);
}

TEST_F(AtenCallTest, ListOfResults) {
  call("aten::split", "Tensor",
       {{"self", t(0)}, {"split_size", int64_t(1)}, {"dim", int64_t(0)}},
       {4, 5});
  EXPECT_EQ(state.slots[5].sizes(), at::IntArrayRef({1, 3}));
}

TEST_F(AtenCallTest, UndefinedResult) {
  state.slots[0] = at::ones({1, 1, 3, 3});
  state.slots[1] = at::ones({1, 1, 3, 3});
  call("aten::convolution_backward", "",
       {{"grad_output", t(0)},
        {"input", t(1)},
        {"weight", t(1)},
        {"bias_sizes", Arg()},
        {"stride", Ints{1, 1}},
        {"padding", Ints{1, 1}},
        {"dilation", Ints{1, 1}},
        {"transposed", false},
        {"output_padding", Ints{0, 0}},
        {"groups", int64_t(1)},
        {"output_mask", std::vector<bool>{true, true, false}}},
       {4, 5, -1});
  EXPECT_EQ(state.slots[5].sizes(), at::IntArrayRef({1, 1, 3, 3}));
}

TEST_F(AtenCallTest, TypesOfTensors) {
  Args args = {{"self", t(0)},
               {"dtype", plan::DType::bf16},
               {"layout", plan::Layout::strided},
               {"device", text("cpu", Arg::Kind::device)},
               {"memory_format", plan::MemoryFormat::contiguous}};
  EXPECT_EQ(call("aten::_to_copy", "", args).scalar_type(), at::kBFloat16);
  for (auto format :
       {plan::MemoryFormat::preserve, plan::MemoryFormat::contiguous}) {
    args[4].second = format;
    EXPECT_NO_THROW(call("aten::_to_copy", "", args));
  }
}

TEST_F(AtenCallTest, RequiredType) {
  state.slots[1] = state.slots[0].softmax(1);
  EXPECT_NO_THROW(call("aten::_softmax_backward_data", "",
                       {{"grad_output", t(0)},
                        {"output", t(1)},
                        {"dim", int64_t(1)},
                        {"input_dtype", plan::DType::f32}}));
}

TEST_F(AtenCallTest, StringsAndFloats) {
  EXPECT_NO_THROW(
      call("aten::gelu", "", {{"self", t(0)}, {"approximate", text("tanh")}}));
  EXPECT_NO_THROW(call("aten::native_dropout", "",
                       {{"input", t(0)}, {"p", 0.5}, {"train", true}}, {4, 5}));
  state.slots[0] = at::ones({1, 1, 2, 2});
  EXPECT_EQ(call("aten::upsample_nearest2d", "vec",
                 {{"input", t(0)},
                  {"output_size", Arg()},
                  {"scale_factors", std::vector<double>{2.0, 2.0}}})
                .sizes(),
            at::IntArrayRef({1, 1, 4, 4}));
}

TEST_F(AtenCallTest, DropsWhatIsFree) {
  op = makeCall("aten::neg", "", {{"self", t(0)}}, {4});
  op.free = {0};
  prepare(op, "", state)->run(state);
  EXPECT_FALSE(state.slots[0].defined());
}

TEST_F(AtenCallTest, OperatorsWithOtherEffectsThanTheirResults) {
  expectError("'aten::from_file' takes a text that may name a file",
              "aten::from_file", "",
              {{"filename", text("/dev/null")}, {"size", int64_t(1)}});
  expectError("'aten::relu_' changes its arguments", "aten::relu_", "",
              {{"self", t(0)}});
  expectError("'aten::_print' has no tensor among its results", "aten::_print",
              "", {{"s", text("hello")}}, {});
  expectError("'quantized::relu6' is none of ATen's operators",
              "quantized::relu6", "", {{"qx", t(0)}});
}

TEST_F(AtenCallTest, UnknownOperator) {
  expectError("this libtorch has no operator 'aten::frobnicate.Tensor'",
              "aten::frobnicate", "Tensor", {});
}

TEST_F(AtenCallTest, UnknownArgument) {
  expectError("there is no argument 'sefl' in aten::neg(", "aten::neg", "",
              {{"sefl", t(0)}});
}

TEST_F(AtenCallTest, MissingArgument) {
  expectError("the argument 'other' is missing", "aten::add", "Tensor",
              {{"self", t(0)}});
}

TEST_F(AtenCallTest, WrongKindOfArgument) {
  expectError("argument 'size' expects SymInt[], the plan gives a string",
              "aten::view", "", {{"self", t(0)}, {"size", text("3")}});
  expectError("argument 'keepdim' expects bool, the plan gives an integer",
              "aten::sum", "dim_IntList",
              {{"self", t(0)}, {"dim", Ints{0}}, {"keepdim", int64_t(1)}});
  expectError("the plan gives a list of tensors", "aten::neg", "",
              {{"self", tensors({0})}});
  expectError("the plan gives a tensor", "aten::view", "",
              {{"self", t(0)}, {"size", t(0)}});
  expectError("a list with -1 in it", "aten::cat", "",
              {{"tensors", tensors({0, -1})}});
}

TEST_F(AtenCallTest, WrongNumberOfResults) {
  expectError("expected 1 results, got 2", "aten::neg", "", {{"self", t(0)}},
              {4, 5});
  expectError("expected 3 results, the operator returned 2", "aten::split",
              "Tensor", {{"self", t(0)}, {"split_size", int64_t(1)}},
              {4, 5, 6});
}

TEST_F(AtenCallTest, EmptySlot) {
  expectError("slot 3 holds no tensor", "aten::neg", "", {{"self", t(3)}});
}

TEST_F(AtenCallTest, LibtorchsOwnError) {
  expectError("shape", "aten::view", "",
              {{"self", t(0)}, {"size", Ints{4, 2}}});
}

} // namespace
