// SPDX-License-Identifier: Apache-2.0
//
// Adafactor beside plain loops in f64, as torch.optim.Adafactor computes it.
#include "optimizers/Adafactor.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <cmath>
#include <gtest/gtest.h>

using namespace fcdp;

namespace {

using Values = std::vector<double>;

plan::AdafactorT defaultSettings() {
  plan::AdafactorT adafactor;
  adafactor.beta2Decay = -0.8;
  adafactor.eps2 = 1e-3;
  adafactor.d = 1;
  return adafactor;
}

double rootMeanSquare(const Values &values) {
  double sum = 0;
  for (double value : values)
    sum += value * value;
  return std::sqrt(sum / double(values.size()));
}

/// A parameter of `batch` matrices or, without columns, of `rows` elements.
struct Reference {
  int64_t batch, rows, columns;
  Values parameter, row, column, variance;
  double eps1, weightDecay;

  Reference(int64_t batch, int64_t rows, int64_t columns, Values parameter,
            double eps1, double weightDecay)
      : batch(batch), rows(rows), columns(columns),
        parameter(std::move(parameter)), row(batch * rows),
        column(batch * columns), variance(rows), eps1(eps1),
        weightDecay(weightDecay) {}

  Values estimate(const Values &grad, double weight) {
    Values found(grad.size());
    if (columns == 0) {
      for (size_t i = 0; i < grad.size(); ++i)
        found[i] = variance[i] += weight * (grad[i] * grad[i] - variance[i]);
      return found;
    }
    auto at = [&](int64_t b, int64_t i, int64_t j) {
      return (b * rows + i) * columns + j;
    };
    for (int64_t b = 0; b < batch; ++b) {
      double mean = 0;
      for (int64_t i = 0; i < rows; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < columns; ++j)
          sum += std::pow(grad[at(b, i, j)], 2) / double(columns);
        double &state = row[b * rows + i];
        state += weight * (sum - state);
        mean += state / double(rows);
      }
      for (int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (int64_t i = 0; i < rows; ++i)
          sum += std::pow(grad[at(b, i, j)], 2) / double(rows);
        double &state = column[b * columns + j];
        state += weight * (sum - state);
      }
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j)
          found[at(b, i, j)] = row[b * rows + i] * column[b * columns + j] /
                               std::max(mean, eps1);
    }
    return found;
  }

  void update(const plan::AdafactorT &adafactor, const Values &grad,
              double rate, int64_t step) {
    double weight = std::pow(double(step), adafactor.beta2Decay);
    double alpha = std::max(adafactor.eps2, rootMeanSquare(parameter)) *
                   std::min(rate, 1 / std::sqrt(double(step)));
    Values change = estimate(grad, weight);
    for (size_t i = 0; i < grad.size(); ++i)
      change[i] = grad[i] / std::sqrt(std::max(change[i], eps1 * eps1));
    double most = std::max(1.0, rootMeanSquare(change) / adafactor.d);
    for (size_t i = 0; i < grad.size(); ++i)
      parameter[i] =
          parameter[i] * (1 - rate * weightDecay) - alpha / most * change[i];
  }
};

Values valuesOf(const at::Tensor &tensor) {
  at::Tensor wide = tensor.to(at::kDouble);
  const double *first = wide.const_data_ptr<double>();
  return Values(first, first + wide.numel());
}

void expectNear(const at::Tensor &actual, const Values &expected, double most) {
  Values found = valuesOf(actual);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], most * (0.1 + std::abs(expected[i])));
}

struct Case {
  Shape shape;
  at::ScalarType type = at::kFloat;
};

plan::ParameterT describe(const Case &of) {
  plan::ParameterT parameter;
  parameter.shape = of.shape;
  parameter.dtype = of.type == at::kBFloat16 ? plan::DType::bf16
                    : of.type == at::kDouble ? plan::DType::f64
                                             : plan::DType::f32;
  return parameter;
}

AdafactorPart makePart(const Case &of) {
  int64_t elements = numElements(of.shape);
  size_t rank = of.shape.size();
  AdafactorPart part;
  part.parameter = at::randn({elements}).to(of.type);
  part.memory = at::empty({elements}, at::kFloat);
  if (rank >= 2) {
    part.rows = of.shape[rank - 2];
    part.columns = of.shape[rank - 1];
    part.rowVar = at::zeros({elements / part.columns}, of.type);
    part.colVar = at::zeros({elements / part.rows}, of.type);
  } else {
    part.variance = at::zeros({elements}, of.type);
  }
  return part;
}

Reference makeReference(const AdafactorPart &part, double eps1) {
  bool isFactored = part.columns != 0;
  int64_t elements = part.parameter.numel();
  int64_t rows = isFactored ? part.rows : elements;
  int64_t batch = isFactored ? elements / (rows * part.columns) : 1;
  return {batch,           rows, part.columns, valuesOf(part.parameter), eps1,
          part.weightDecay};
}

class AdafactorTest : public ::testing::TestWithParam<Case> {};

TEST_P(AdafactorTest, IsTheFormula) {
  at::manual_seed(7);
  double tolerance = GetParam().type == at::kDouble  ? 1e-9
                     : GetParam().type == at::kFloat ? 2e-5
                                                     : 2e-2;
  AdafactorPart part = makePart(GetParam());
  part.weightDecay = 0.1;
  double eps1 = GetParam().type == at::kDouble  ? 0x1p-52
                : GetParam().type == at::kFloat ? 0x1p-23
                                                : 0x1p-7;
  Reference expected = makeReference(part, eps1);
  plan::AdafactorT adafactor = defaultSettings();
  at::Tensor scratch =
      at::empty({adafactorBytes(describe(GetParam()))}, at::kByte);
  // From step 3 on, the rate is more than 1 / sqrt(step).
  for (int64_t step = 1; step <= 5; ++step) {
    part.grad = at::randn({part.parameter.numel()}).to(GetParam().type);
    Values grad = valuesOf(part.grad);
    updateAdafactor(part, adafactor, 0.6, step, scratch);
    expected.update(adafactor, grad, 0.6, step);
    expectNear(part.parameter, expected.parameter, tolerance);
    if (part.columns != 0) {
      expectNear(part.rowVar, expected.row, tolerance);
      expectNear(part.colVar, expected.column, tolerance);
    } else {
      expectNear(part.variance, expected.variance, tolerance);
    }
    if (GetParam().type == at::kBFloat16) // Compares one step at a time.
      return;
  }
}

TEST_P(AdafactorTest, TakesItsScratchMemoryAndNoMore) {
  AdafactorPart part = makePart(GetParam());
  part.grad = at::randn({part.parameter.numel()}).to(GetParam().type);
  int64_t bytes = adafactorBytes(describe(GetParam()));
  at::Tensor scratch = at::empty({bytes}, at::kByte);
  updateAdafactor(part, defaultSettings(), 0.1, 1, scratch);
  at::Tensor less = at::empty({bytes - 64}, at::kByte);
  EXPECT_ANY_THROW(updateAdafactor(part, defaultSettings(), 0.1, 1, less));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AdafactorTest,
    ::testing::Values(Case{{5, 7}}, Case{{64, 33}}, Case{{3, 4, 5}},
                      Case{{2, 3, 4, 5}}, Case{{1, 9}}, Case{{17}}, Case{{}},
                      Case{{6, 5}, at::kDouble}, Case{{9}, at::kDouble},
                      Case{{16, 8}, at::kBFloat16}, Case{{24}, at::kBFloat16}));

TEST(Adafactor, SettingsAreUsed) {
  at::manual_seed(3);
  AdafactorPart part = makePart({{6, 8}});
  part.parameter.mul_(1e-4);
  plan::AdafactorT adafactor = defaultSettings();
  adafactor.eps1 = 0.5;
  adafactor.eps2 = 0.25;
  adafactor.d = 4;
  adafactor.beta2Decay = -0.5;
  Reference expected = makeReference(part, 0.5);
  at::Tensor scratch =
      at::empty({adafactorBytes(describe({{6, 8}}))}, at::kByte);
  for (int64_t step = 1; step <= 3; ++step) {
    part.grad = at::randn({48});
    Values grad = valuesOf(part.grad);
    updateAdafactor(part, adafactor, 0.1, step, scratch);
    expected.update(adafactor, grad, 0.1, step);
    expectNear(part.parameter, expected.parameter, 2e-5);
  }
}

/// A gradient of zeros moves nothing, also in the first step.
TEST(Adafactor, NoGradientIsNoStep) {
  for (const Shape &shape : {Shape{6, 8}, Shape{4}}) {
    AdafactorPart part = makePart({shape});
    at::Tensor before = part.parameter.clone();
    part.grad = at::zeros({part.parameter.numel()});
    at::Tensor scratch =
        at::empty({adafactorBytes(describe({shape}))}, at::kByte);
    for (int64_t step = 1; step <= 2; ++step)
      updateAdafactor(part, defaultSettings(), 0.1, step, scratch);
    EXPECT_EQ(valuesOf(part.parameter), valuesOf(before));
  }
}

/// As in PyTorch, where Python's max(1, NaN) is 1.
TEST(Adafactor, AnElementThatIsNotANumberStaysAlone) {
  AdafactorPart part = makePart({{4}});
  part.grad = at::full({4}, 2.0f);
  part.grad[1] = NAN;
  at::Tensor scratch = at::empty({adafactorBytes(describe({{4}}))}, at::kByte);
  updateAdafactor(part, defaultSettings(), 0.1, 1, scratch);
  at::Tensor wrong = at::isnan(part.parameter);
  EXPECT_EQ(wrong.sum().item<int64_t>(), 1);
  EXPECT_TRUE(wrong[1].item<bool>());
}

} // namespace
