// SPDX-License-Identifier: Apache-2.0
//
// The orthogonalization beside plain loops, and beside PyTorch's order of
// operations bit for bit.
#include "optimizers/NewtonSchulz.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <cmath>
#include <gtest/gtest.h>

using namespace fcdp;

namespace {

plan::MuonT settings() {
  plan::MuonT muon;
  muon.nsA = 3.4445;
  muon.nsB = -4.7750;
  muon.nsC = 2.0315;
  muon.eps = 1e-7;
  muon.nsSteps = 5;
  return muon;
}

at::Tensor orthogonalized(const at::Tensor &matrix, const plan::MuonT &muon) {
  at::Tensor out = at::empty_like(matrix);
  at::Tensor scratch = at::empty(
      {orthogonalizeBytes(matrix.size(0), matrix.size(1))}, at::kByte);
  orthogonalize(out, matrix, muon, scratch);
  return out;
}

using Matrix = std::vector<std::vector<double>>;

Matrix multiply(const Matrix &a, const Matrix &b) {
  Matrix c(a.size(), std::vector<double>(b[0].size()));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < b[0].size(); ++j)
      for (size_t k = 0; k < b.size(); ++k)
        c[i][j] += a[i][k] * b[k][j];
  return c;
}

Matrix transpose(const Matrix &a) {
  Matrix t(a[0].size(), std::vector<double>(a.size()));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a[0].size(); ++j)
      t[j][i] = a[i][j];
  return t;
}

/// The iteration in f64, whichever side is longer.
Matrix iterate(Matrix x, const plan::MuonT &muon) {
  double norm = 0;
  for (auto &row : x)
    for (double value : row)
      norm += value * value;
  for (auto &row : x)
    for (double &value : row)
      value /= std::max(std::sqrt(norm), muon.eps);
  for (uint32_t step = 0; step < muon.nsSteps; ++step) {
    Matrix gram = multiply(x, transpose(x)), square = multiply(gram, gram);
    for (size_t i = 0; i < gram.size(); ++i)
      for (size_t j = 0; j < gram.size(); ++j)
        gram[i][j] = muon.nsB * gram[i][j] + muon.nsC * square[i][j] +
                     (i == j ? muon.nsA : 0);
    x = multiply(gram, x);
  }
  return x;
}

struct Shape {
  int64_t rows, columns;
};

class NewtonSchulzTest : public ::testing::TestWithParam<Shape> {
protected:
  at::Tensor matrix() const {
    at::manual_seed(7);
    return at::randn({GetParam().rows, GetParam().columns});
  }
};

TEST_P(NewtonSchulzTest, IsThatOfPlainLoops) {
  at::Tensor in = matrix(), out = orthogonalized(in, settings());
  Matrix x(in.size(0), std::vector<double>(in.size(1)));
  for (int64_t i = 0; i < in.size(0); ++i)
    for (int64_t j = 0; j < in.size(1); ++j)
      x[i][j] = in[i][j].item<double>();
  Matrix expected = iterate(x, settings());
  double difference = 0, size = 0;
  for (int64_t i = 0; i < in.size(0); ++i)
    for (int64_t j = 0; j < in.size(1); ++j) {
      difference += std::pow(out[i][j].item<double>() - expected[i][j], 2);
      size += std::pow(expected[i][j], 2);
    }
  // bf16 has 8 bits, and each iteration adds to their errors.
  EXPECT_LT(std::sqrt(difference / size), 0.05);
}

/// Does the work of torch.optim._muon, with results of its own.
at::Tensor ofPyTorch(const at::Tensor &matrix, const plan::MuonT &muon) {
  at::Tensor x = matrix.to(at::kBFloat16);
  bool isTall = matrix.size(0) > matrix.size(1);
  if (isTall)
    x = x.t();
  x.div_(at::linalg_vector_norm(x, 2).clamp_min(muon.eps));
  for (uint32_t step = 0; step < muon.nsSteps; ++step) {
    at::Tensor gram = at::mm(x, x.t());
    x = at::addmm(x, at::addmm(gram, gram, gram, muon.nsB, muon.nsC), x,
                  muon.nsA);
  }
  return (isTall ? x.t() : x).to(matrix.scalar_type());
}

TEST_P(NewtonSchulzTest, IsPyTorchsBitForBit) {
  at::Tensor in = matrix();
  for (uint32_t steps : {0, 1, 4, 5}) {
    plan::MuonT muon = settings();
    muon.nsSteps = steps;
    EXPECT_TRUE(at::equal(orthogonalized(in, muon), ofPyTorch(in, muon)));
  }
}

TEST_P(NewtonSchulzTest, MayReplaceItsInput) {
  at::Tensor in = matrix(), expected = orthogonalized(in, settings());
  at::Tensor scratch =
      at::empty({orthogonalizeBytes(in.size(0), in.size(1))}, at::kByte);
  orthogonalize(in, in, settings(), scratch);
  EXPECT_TRUE(at::equal(in, expected));
}

INSTANTIATE_TEST_SUITE_P(Shapes, NewtonSchulzTest,
                         ::testing::Values(Shape{1, 1}, Shape{8, 8},
                                           Shape{5, 37}, Shape{37, 5},
                                           Shape{64, 192}, Shape{96, 32}),
                         [](const auto &info) {
                           return std::to_string(info.param.rows) + "x" +
                                  std::to_string(info.param.columns);
                         });

TEST(NewtonSchulz, OfZerosIsZero) {
  at::Tensor out = orthogonalized(at::zeros({4, 6}), settings());
  EXPECT_TRUE(at::equal(out, at::zeros({4, 6})));
}

TEST(NewtonSchulz, AdjustsTheRate) {
  plan::MuonT muon = settings();
  EXPECT_DOUBLE_EQ(adjustedRate(muon, {16, 4}), 2);
  EXPECT_DOUBLE_EQ(adjustedRate(muon, {4, 16}), 1);
  muon.adjustLrFn = plan::AdjustLr::match_rms_adamw;
  EXPECT_DOUBLE_EQ(adjustedRate(muon, {16, 4}), 0.8);
  EXPECT_DOUBLE_EQ(adjustedRate(muon, {4, 25}), 1);
}

} // namespace
