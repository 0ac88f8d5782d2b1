// SPDX-License-Identifier: Apache-2.0
#include "operators/ChunkedLoss.h"

#include "core/LossWorkspace.h"
#include "operators/WholeSum.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/nll_loss_backward.h>
#include <ATen/ops/nll_loss_forward.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tanh_backward.h>
#include <gtest/gtest.h>

using namespace fcdp;

namespace {

constexpr int64_t kRows = 150, kFeatures = 32, kVocabulary = 500;

/// A head, and the greatest difference that its weight's gradient may have, as
/// a part of the greatest element.
struct Head {
  const char *name;
  at::ScalarType type = at::kFloat;
  /// Soft cap; 0 for none.
  double cap = 0;
  bool isCast = false, hasBias = false, smooths = false;
  int64_t reduction = 1;
  double tolerance = 1e-6;
};

const Head kHeads[] = {
    {"f32"},
    {.name = "f64", .type = at::kDouble},
    {.name = "cap", .cap = 30},
    {.name = "bias", .hasBias = true},
    {.name = "sum", .reduction = 2},
    {.name = "rows", .reduction = 0},
    {.name = "smooth", .smooths = true},
    {.name = "bf16", .type = at::kBFloat16, .tolerance = 8e-3},
    {.name = "bf16_cast",
     .type = at::kBFloat16,
     .isCast = true,
     .hasBias = true,
     .tolerance = 8e-3},
    {.name = "bf16_cap",
     .type = at::kBFloat16,
     .cap = 30,
     .isCast = true,
     .tolerance = 8e-3},
    {.name = "bf16_smooth",
     .type = at::kBFloat16,
     .isCast = true,
     .smooths = true,
     .tolerance = 8e-3},
};

class ChunkedLossTest : public ::testing::TestWithParam<Head> {
protected:
  ChunkedLoss make(int64_t rows) {
    const Head &head = GetParam();
    at::manual_seed(4);
    ChunkedLoss given;
    given.hidden = at::randn({kRows, kFeatures}).to(head.type);
    given.weight = at::randn({kVocabulary, kFeatures}).mul(0.2).to(head.type);
    if (head.hasBias)
      given.bias = at::randn({kVocabulary}).to(head.type);
    given.labels = at::randint(kVocabulary, {kRows}, at::kLong);
    given.labels.slice(0, 0, kRows, 7).fill_(*given.ignoreIndex);
    at::ScalarType lossType = head.isCast ? at::kFloat : head.type;
    given.gradient = head.reduction == 0 ? at::rand({kRows}).to(lossType)
                                         : at::full({}, 0.5, lossType);
    if (head.smooths)
      given.sumGradient = at::rand({kRows}).mul(1e-3).to(lossType);
    given.sums = head.smooths;
    given.rows = rows;
    if (head.cap != 0) {
      given.steps = "div tanh mul ";
      given.factors = {head.cap, head.cap};
    }
    if (head.isCast)
      given.steps += "cast";
    given.reduction = head.reduction;
    given.trainsHidden = given.trainsWeight = true;
    given.trainsBias = head.hasBias;
    given.workspaceBytes = LossWorkspace(shape(given)).bytes;
    return given;
  }

  static LossShape shape(const ChunkedLoss &given) {
    const Head &head = GetParam();
    LossShape shape;
    shape.rows = kRows;
    shape.chunk = given.rows;
    shape.hidden = kFeatures;
    shape.vocabulary = kVocabulary;
    shape.modelBytes = given.hidden.element_size();
    shape.isCast = head.isCast;
    shape.hasTanh = head.cap != 0;
    shape.trainsHidden = shape.trainsWeight = true;
    shape.block = given.block;
    shape.trainsBias = head.hasBias;
    return shape;
  }
};

/// Computes the loss as a whole.
ChunkedLoss::Results whole(const ChunkedLoss &given, const Head &head) {
  at::Tensor logits =
      given.bias ? at::addmm(*given.bias, given.hidden, given.weight.t())
                 : at::mm(given.hidden, given.weight.t());
  at::Tensor tanh;
  if (head.cap != 0) {
    tanh = at::tanh(logits.div(head.cap));
    logits = tanh.mul(head.cap);
  }
  if (head.isCast)
    logits = logits.to(at::kFloat);
  at::Tensor logProbs = at::_log_softmax(logits, 1, false);
  ChunkedLoss::Results results;
  std::tie(results.loss, results.totalWeight) = at::nll_loss_forward(
      logProbs, given.labels, {}, given.reduction, *given.ignoreIndex);
  results.rowSums = logProbs.sum(1);
  at::Tensor gradient = at::nll_loss_backward(
      *given.gradient, logProbs, given.labels, {}, given.reduction,
      *given.ignoreIndex, results.totalWeight);
  if (given.sumGradient)
    gradient = gradient.add(given.sumGradient->unsqueeze(1));
  gradient = at::_log_softmax_backward_data(gradient, logProbs, 1,
                                            logProbs.scalar_type())
                 .to(head.type);
  if (head.cap != 0)
    gradient = at::tanh_backward(gradient.mul(head.cap), tanh).div(head.cap);
  results.hidden = at::mm(gradient, given.weight);
  results.weight = at::mm(gradient.t(), given.hidden);
  results.bias = gradient.sum(0, /*keepdim=*/true);
  return results;
}

void expectNear(const at::Tensor &got, const at::Tensor &wanted,
                double tolerance) {
  at::Tensor exact = wanted.to(at::kDouble);
  double error = got.to(at::kDouble).sub(exact).abs().max().item<double>();
  EXPECT_LE(error, tolerance * exact.abs().max().item<double>());
}

void PrintTo(const Head &head, std::ostream *out) { *out << head.name; }

TEST_P(ChunkedLossTest, HasTheBitsOfTheWhole) {
  const Head &head = GetParam();
  // Threads divide products of few rows in other ways.
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  for (int64_t rows : {150L, 80L, 64L, 48L, 16L}) {
    ChunkedLoss given = make(rows);
    ChunkedLoss::Results chunked = given.run(), expected = whole(given, head);
    EXPECT_TRUE(chunked.loss.equal(expected.loss));
    EXPECT_TRUE(chunked.totalWeight.equal(expected.totalWeight));
    EXPECT_TRUE(chunked.hidden.equal(expected.hidden));
    expectNear(chunked.weight, expected.weight, head.tolerance);
    EXPECT_EQ(chunked.bias.defined(), head.hasBias);
    if (head.hasBias)
      expectNear(chunked.bias, expected.bias, head.tolerance);
    EXPECT_EQ(chunked.rowSums.defined(), head.smooths);
    if (head.smooths)
      EXPECT_TRUE(chunked.rowSums.equal(expected.rowSums));
  }
  at::set_num_threads(threads);
}

using ChunkedLossBlocksTest = ChunkedLossTest;

TEST_P(ChunkedLossBlocksTest, ComputesTheWeightsGradientByBlocks) {
  const Head &head = GetParam();
  ChunkedLoss given = make(48);
  given.block = shape(given).getLargestBlock();
  EXPECT_EQ(given.block, 128);
  given.workspaceBytes = LossWorkspace(shape(given)).bytes;
  ChunkedLoss::Results blocks = given.run(), expected = whole(given, head);
  EXPECT_TRUE(blocks.loss.equal(expected.loss));
  EXPECT_TRUE(blocks.hidden.equal(make(48).run().hidden));
  expectNear(blocks.weight, expected.weight, head.tolerance);
}

/// Heads in bf16 whose log-probabilities are f32.
INSTANTIATE_TEST_SUITE_P(Heads, ChunkedLossBlocksTest,
                         ::testing::ValuesIn(kHeads + 8, std::end(kHeads)),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

using ChunkedLossGatherTest = ChunkedLossTest;

TEST_P(ChunkedLossGatherTest, IgnoresNoLabel) {
  const Head &head = GetParam();
  ChunkedLoss given = make(64);
  given.labels = at::randint(kVocabulary, {kRows}, at::kLong);
  ChunkedLoss::Results expected = whole(given, head);
  given.ignoreIndex.reset();
  ChunkedLoss::Results results = given.run();
  EXPECT_TRUE(results.loss.equal(expected.loss));
  expectNear(results.hidden, expected.hidden, head.tolerance);
  given.labels[5] = -100;
  EXPECT_THROW(given.run(), c10::Error);
}

INSTANTIATE_TEST_SUITE_P(Heads, ChunkedLossGatherTest,
                         ::testing::Values(kHeads[5]));

TEST_P(ChunkedLossTest, ComputesALossWithoutGradients) {
  ChunkedLoss given = make(64);
  given.trainsHidden = given.trainsWeight = given.trainsBias = false;
  given.gradient.reset();
  given.sumGradient.reset();
  ChunkedLoss::Results results = given.run();
  EXPECT_TRUE(results.loss.equal(whole(make(64), GetParam()).loss));
  EXPECT_FALSE(results.hidden.defined() || results.weight.defined() ||
               results.bias.defined());
}

INSTANTIATE_TEST_SUITE_P(Heads, ChunkedLossTest, ::testing::ValuesIn(kHeads),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

class ChunkedLossErrorTest : public ChunkedLossTest {
protected:
  void expectError(void (*change)(ChunkedLoss &), const std::string &message) {
    ChunkedLoss given = make(64);
    change(given);
    try {
      given.run();
      FAIL() << "expected an error: " << message;
    } catch (const std::runtime_error &error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos)
          << error.what();
    }
  }
};

TEST_P(ChunkedLossErrorTest, NamesWhatDoesNotFit) {
  expectError(
      [](ChunkedLoss &loss) { loss.rows = 151; },
      "expected chunks of a multiple of 16 rows, or of all 150, got 151");
  expectError([](ChunkedLoss &loss) { loss.steps = "exp"; },
              "expected steps 'div', 'mul', 'tanh' or 'cast', got 'exp'");
  expectError([](ChunkedLoss &loss) { loss.steps = "div"; },
              "expected a factor for each 'div' and 'mul', got 0");
  expectError([](ChunkedLoss &loss) { loss.steps = "tanh tanh"; },
              "expected at most one 'tanh'");
  expectError([](ChunkedLoss &loss) { --loss.workspaceBytes; },
              "expected a workspace of at least");
  expectError([](ChunkedLoss &loss) { loss.gradient.reset(); },
              "expected the gradient of the loss, got none");
  expectError([](ChunkedLoss &loss) { loss.trainsBias = true; },
              "expected a bias, whose gradient is asked for");
  expectError([](ChunkedLoss &loss) { loss.block = 64; },
              "expected a block of at most 0 classes, got 64");
  expectError([](ChunkedLoss &loss) { loss.ignoreIndex.reset(); },
              "expected a label to ignore, got none");
  expectError([](ChunkedLoss &loss) { loss.reduction = 3; },
              "expected the reduction 0, 1 or 2, got 3");
  expectError([](ChunkedLoss &loss) { loss.labels = loss.labels.slice(0, 1); },
              "expected a label of type i64 for each of 150 rows");
  expectError([](ChunkedLoss &loss) { loss.weight = loss.weight.slice(1, 1); },
              "expected a weight [vocabulary, features]");
  expectError(
      [](ChunkedLoss &loss) { loss.gradient = loss.gradient->expand({3}); },
      "expected gradients of the loss as one number");
}

TEST_P(ChunkedLossErrorTest, NamesWhatDoesNotFitATeacher) {
  static const auto make = [](ChunkedLoss &loss) -> ChunkedLoss::Teacher & {
    ChunkedLoss::Teacher &teacher = loss.teacher.emplace();
    teacher.logits = at::rand({kRows, kVocabulary});
    teacher.gradient = at::full({}, 0.5, at::kFloat);
    teacher.terms = "kl";
    return teacher;
  };
  expectError(
      [](ChunkedLoss &loss) {
        make(loss).logits = at::rand({kRows, kVocabulary - 1});
      },
      "expected a teacher's logits of 500 classes");
  expectError([](ChunkedLoss &loss) { make(loss).logits = at::rand({3, 3}); },
              "expected a row of a teacher's floats for hidden states");
  expectError([](ChunkedLoss &loss) { make(loss).weight = at::rand({3, 3}); },
              "expected a teacher's weight of 500 classes");
  expectError([](ChunkedLoss &loss) { make(loss).terms = "log_exp"; },
              "expected terms 'kl', 'kl_exp', 'log', 'cross' or 'cross_exp', "
              "got 'log_exp'");
  expectError([](ChunkedLoss &loss) { make(loss).common = 1; },
              "expected common steps of 0, got 1");
  expectError([](ChunkedLoss &loss) { make(loss).skipsInfinite = true; },
              "expected infinite logits in a cross entropy alone, got 'kl'");
  expectError([](ChunkedLoss &loss) { make(loss).gradient.reset(); },
              "expected the gradient of the divergence, got none");
  expectError([](ChunkedLoss &loss) { make(loss).byRow = true; },
              "expected gradients of the loss as one number for each row");
  expectError([](ChunkedLoss &loss) { make(loss); },
              "expected a workspace of at least");
}

INSTANTIATE_TEST_SUITE_P(Heads, ChunkedLossErrorTest,
                         ::testing::Values(kHeads[0]));

/// The order of the whole does not depend on where parts begin.
TEST(WholeSum, HasTheBitsOfTheWhole) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  at::manual_seed(7);
  for (at::ScalarType type :
       {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
    for (int64_t count : {9, 100, 4096, 5001, 40037, 300000, 1100003}) {
      at::Tensor all = at::randn({count}).to(type);
      WholeSum sum(count, type);
      for (int64_t begin = 0, size = 1; begin < count;
           begin += size, size = size * 3 + 5)
        sum.add(all.slice(0, begin, std::min(begin + size, count)));
      EXPECT_TRUE(all.sum().equal(at::full({}, sum.finish(), type)))
          << count << " of " << type;
    }
  at::set_num_threads(threads);
}

} // namespace
