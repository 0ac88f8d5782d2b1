// SPDX-License-Identifier: Apache-2.0
#include "operators/PackedAttention.h"
#include "operators/OwnOperators.h"

#include <ATen/Context.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

using namespace fcdp;

namespace {

at::Tensor integers(const std::vector<int64_t> &values) {
  return at::tensor(values, at::kLong).view({2, -1});
}

/// Documents and positions of two rows of eight tokens.
struct PackedRows {
  const char *name;
  std::vector<int64_t> documents, positions;
};

const PackedRows kPackedRows[] = {
    {"documents", {0, 0, 0, 1, 1, 1, 1, 1, 4, 4, 4, 4, 4, 4, 4, 4}, {}},
    {"singles", {0, 1, 2, 2, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 6, 7}, {}},
    {"positions",
     {0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 2},
     {0, 1, 2, 0, 1, 2, 3, 4, 3, 4, 5, 6, 9, 11, 12, 0}},
    {"apart", {0, 0, 1, 1, 0, 0, 2, 2, 7, 7, 7, 7, 7, 7, 7, 7}, {}},
    {"positions that do not grow",
     {0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0},
     {2, 1, 0, 5, 0, 0, 1, 1, 0, 1, 2, 3, 4, 5, 6, 7}}};

/// Attention under a mask, by libtorch.
at::Tensor masked(const PackedAttention &given) {
  at::Tensor documents = given.documents.unsqueeze(1).unsqueeze(3);
  at::Tensor order =
      given.positions ? *given.positions : at::arange(8).expand({2, 8});
  at::Tensor seen = documents.eq(documents.transpose(2, 3));
  seen.logical_and_(
      order.unsqueeze(1).unsqueeze(2).le(order.unsqueeze(1).unsqueeze(3)));
  return at::scaled_dot_product_attention(
      given.query, given.key, given.value, seen, 0, false, given.scale,
      given.query.size(1) != given.key.size(1));
}

class PackedAttentionTest : public ::testing::TestWithParam<PackedRows> {
protected:
  PackedAttention make(int64_t keyHeads, at::ScalarType type) {
    at::manual_seed(3);
    auto random = [&](int64_t heads) {
      // As a projection leaves it: token by token.
      return at::randn({2, 8, heads, 16}).to(type).transpose(1, 2);
    };
    PackedAttention given{random(4),
                          random(keyHeads),
                          random(keyHeads),
                          integers(GetParam().documents),
                          {},
                          0.3};
    if (!GetParam().positions.empty())
      given.positions = integers(GetParam().positions);
    return given;
  }

  void compare(PackedAttention given, double tolerance) {
    auto [out, sums] = given.forward();
    at::Tensor gradient = at::randn_like(out);
    auto [query, key, value] = given.backward(gradient, out, sums);
    for (at::Tensor *operand : {&given.query, &given.key, &given.value})
      *operand = operand->detach().requires_grad_(true);
    at::Tensor expected = masked(given);
    auto gradients = torch::autograd::grad(
        {expected}, {given.query, given.key, given.value}, {gradient});
    EXPECT_TRUE(at::allclose(out, expected, tolerance, tolerance));
    EXPECT_EQ(out.strides(), given.query.strides());
    EXPECT_TRUE(at::allclose(query, gradients[0], tolerance, tolerance));
    EXPECT_TRUE(at::allclose(key, gradients[1], tolerance, tolerance));
    EXPECT_TRUE(at::allclose(value, gradients[2], tolerance, tolerance));
  }
};

TEST_P(PackedAttentionTest, IsAttentionUnderAMask) {
  compare(make(4, at::kFloat), 1e-5);
  compare(make(4, at::kDouble), 1e-12);
}

TEST_P(PackedAttentionTest, OfFewerHeadsOfKeys) {
  compare(make(2, at::kFloat), 1e-5);
}

TEST_P(PackedAttentionTest, InHalfPrecision) {
  compare(make(2, at::kBFloat16), 3e-2);
}

INSTANTIATE_TEST_SUITE_P(Rows, PackedAttentionTest,
                         ::testing::ValuesIn(kPackedRows),
                         [](const auto &info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

TEST(PackedAttentionErrors, SayWhatIsExpected) {
  at::Tensor heads = at::randn({2, 4, 8, 16});
  auto said = [](const PackedAttention &given) -> std::string {
    try {
      given.forward();
    } catch (const std::runtime_error &error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(said({heads, heads, heads, at::arange(8), {}, {}})
                .find("expected documents and positions to be integers [batch, "
                      "tokens] of the query Float [2, 4, 8, 16], got Long [8]"),
            std::string::npos);
  EXPECT_NE(said({heads,
                  heads.narrow(1, 0, 3),
                  heads.narrow(1, 0, 3),
                  at::arange(16).view({2, 8}),
                  {},
                  {}})
                .find("expected key and value to fit the query"),
            std::string::npos);
}

TEST(OwnOperators, AreFoundByName) {
  EXPECT_NE(findOwnOperator("fcdp::packed_attention", ""), nullptr);
  EXPECT_EQ(findOwnOperator("fcdp::packed_attention", "out"), nullptr);
  EXPECT_EQ(findOwnOperator("aten::mm", ""), nullptr);
}

} // namespace
