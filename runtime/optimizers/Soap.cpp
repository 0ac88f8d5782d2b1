// SPDX-License-Identifier: Apache-2.0
//
// Implements SOAP (arXiv 2409.11321).
#include "optimizers/Optimizer.h"
#include "optimizers/ScratchMemory.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/div.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sum.h>
#include <array>
#include <c10/util/Exception.h>
#include <cmath>
#include <optional>
#include <stdexcept>

namespace fcdp {

namespace {

constexpr int64_t kSoapWidth = 4; // of f32

/// Returns the longest side that has a basis, or 0.
int64_t longestSide(int64_t rows, int64_t columns, int64_t most) {
  int64_t longest = 0;
  for (int64_t side : {rows, columns})
    if (side <= most)
      longest = std::max(longest, side);
  return longest;
}

/// Returns the bytes that an update takes from its scratch memory.
int64_t soapBytes(const plan::ParameterT &parameter, int64_t maxSide) {
  int64_t rows = parameter.shape[0], columns = parameter.shape[1];
  if (rows * columns == 0)
    return 0;
  int64_t side = longestSide(rows, columns, maxSide);
  int64_t matrices = parameter.dtype == plan::DType::f32 ? 3 : 4;
  return matrices * placeBytes(rows * columns, kSoapWidth) +
         2 * placeBytes(side * side, kSoapWidth) + placeBytes(side, kSoapWidth);
}

/// Returns the eigenvectors of a symmetric matrix, the one of the greatest
/// eigenvalue first. f32 may not suffice to find them.
void findBasis(const at::Tensor &basis, const at::Tensor &matrix) {
  at::Tensor vectors;
  try {
    vectors = std::get<1>(at::linalg_eigh(matrix));
  } catch (const c10::LinAlgError &) {
    vectors = std::get<1>(at::linalg_eigh(matrix.to(at::kDouble)));
  }
  basis.copy_(vectors.flip({1}));
}

/// A side of a matrix: 0 for rows, 1 for columns.
struct Side {
  int64_t dimension;
  at::Tensor average, basis;
};

/// One update of one matrix.
class MatrixUpdate {
public:
  MatrixUpdate(const UpdatePart &part, const plan::SoapT &settings,
               const UpdateStep &step, bool isNarrow)
      : part(part), settings(settings), step(step), memory(step.scratch),
        shape{part.segment.rows, part.segment.columns}, grad(viewOf(part.sum)),
        first(take()), second(take()), third(take()) {
    if (isNarrow)
      moment = take();
    addSide(sides[0], part.states[2], part.states[4]);
    addSide(sides[1], part.states[3], part.states[5]);
    int64_t side = 0;
    for (const std::optional<Side> &of : sides)
      side = std::max(side, of ? of->basis.size(0) : 0);
    squares = {memory.take({side * side}, at::kFloat),
               memory.take({side * side}, at::kFloat)};
    values = memory.take({side}, at::kFloat);
    if (part.grad.scalar_type() != at::kFloat)
      grad.copy_(viewOf(part.grad));
  }

  /// Makes the bases from the first gradient, and changes nothing else.
  void begin() {
    for (const std::optional<Side> &side : sides) {
      if (!side)
        continue;
      addProduct(*side);
      at::Tensor matrix = squareOf(*side, 0).copy_(side->average);
      constexpr double kNotZero = 1e-30;
      matrix.diagonal().add_(kNotZero);
      findBasis(side->basis, matrix);
    }
  }

  void run() {
    const auto number = double(step.number - 1);
    at::Tensor average = viewOf(part.states[0]),
               squared = viewOf(part.states[1]);
    rotate(first, grad);
    at::Tensor mean = moment.defined() ? moment.copy_(average) : average;
    mean.mul_(settings.beta1).add_(first, 1 - settings.beta1);
    third.copy_(squared);
    third.mul_(settings.beta2).addcmul_(first, first, 1 - settings.beta2);
    squared.copy_(third);
    third.sqrt_().add_(settings.eps);
    at::div_out(third, mean, third);
    rotateBack(first, third);
    double size = step.rate * std::sqrt(1 - std::pow(settings.beta2, number)) /
                  (1 - std::pow(settings.beta1, number));
    moveParameter(first.mul_(size));
    for (const std::optional<Side> &side : sides)
      if (side)
        addProduct(*side);
    if ((step.number - 1) % settings.preconditionFrequency == 0)
      refresh(mean, squared);
    if (moment.defined())
      average.copy_(mean);
  }

private:
  at::Tensor viewOf(const at::Tensor &flat) const { return flat.view(shape); }
  at::Tensor take() { return memory.take(shape, at::kFloat); }
  at::Tensor squareOf(const Side &side, size_t number) const {
    int64_t size = side.basis.size(0);
    return squares[number].narrow(0, 0, size * size).view({size, size});
  }

  void addSide(std::optional<Side> &side, const at::Tensor &average,
               const at::Tensor &basis) {
    int64_t dimension = &side - sides.data(), size = shape[dimension];
    // The states of a side without a basis are empty.
    if (basis.numel() != 0)
      side.emplace(dimension, average.view({size, size}),
                   basis.view({size, size}));
  }

  /// Moves the average of outer products by the gradient's.
  void addProduct(const Side &side) {
    double beta =
        settings.shampooBeta >= 0 ? settings.shampooBeta : settings.beta2;
    at::Tensor left = side.dimension == 0 ? grad : grad.t();
    at::Tensor average = side.average;
    at::addmm_out(average, average, left, left.t(), beta, 1 - beta);
  }

  /// Computes left `in` right, where an undefined factor is the identity.
  /// Overwrites `second`.
  void multiply(at::Tensor &out, const at::Tensor &in, const at::Tensor &left,
                const at::Tensor &right) {
    if (left.defined() && right.defined())
      at::mm_out(out, at::mm_out(second, left, in), right);
    else if (left.defined())
      at::mm_out(out, left, in);
    else if (right.defined())
      at::mm_out(out, in, right);
    else
      out.copy_(in);
  }

  void rotate(at::Tensor &out, const at::Tensor &in) {
    multiply(out, in, sides[0] ? sides[0]->basis.t() : at::Tensor(),
             sides[1] ? sides[1]->basis : at::Tensor());
  }

  void rotateBack(at::Tensor &out, const at::Tensor &in) {
    multiply(out, in, sides[0] ? sides[0]->basis : at::Tensor(),
             sides[1] ? sides[1]->basis.t() : at::Tensor());
  }

  /// Decays the parameter after the step, as the authors do.
  void moveParameter(const at::Tensor &change) {
    at::Tensor parameter = viewOf(part.parameter);
    bool isWidened = at::isReducedFloatingType(parameter.scalar_type());
    at::Tensor value = isWidened ? second.copy_(parameter) : parameter;
    value.sub_(change).mul_(1 - step.rate * part.segment.weightDecay);
    if (isWidened)
      parameter.copy_(value);
  }

  /// Replaces the bases by those after one more power iteration, and expresses
  /// the moments in them.
  void refresh(at::Tensor mean, const at::Tensor &squared) {
    rotateBack(third, mean);
    for (const std::optional<Side> &side : sides) {
      if (!side)
        continue;
      at::Tensor product = squareOf(*side, 0), other = squareOf(*side, 1);
      at::Tensor own = values.narrow(0, 0, product.size(0));
      at::mm_out(product, side->average, side->basis);
      at::sum_out(own, at::mul_out(other, side->basis, product), {0});
      at::Tensor order =
          own.argsort(/*stable=*/true, /*dim=*/0, /*descending=*/true);
      at::index_select_out(first, second.copy_(squared), side->dimension,
                           order);
      squared.copy_(first);
      at::index_select_out(other, product, 1, order);
      side->basis.copy_(std::get<0>(at::linalg_qr(other)));
    }
    rotate(mean, third);
  }

  const UpdatePart &part;
  const plan::SoapT &settings;
  const UpdateStep &step;
  ScratchMemory memory;
  const std::array<int64_t, 2> shape;
  at::Tensor grad;
  /// Matrices in f32. `second` is overwritten by rotations.
  at::Tensor first, second, third;
  /// The first moment in f32, if its state has another type.
  at::Tensor moment;
  std::array<std::optional<Side>, 2> sides;
  std::array<at::Tensor, 2> squares;
  at::Tensor values;
};

class Soap final : public Optimizer {
public:
  Soap(const plan::SoapT &settings, const OptimizedShard &shard)
      : settings(settings),
        isNarrow(shard.parameter.scalar_type() != at::kFloat),
        scratchBytes(mostBytes(shard, [&](const plan::ParameterT &parameter) {
          return soapBytes(
              parameter, shard.plan.buckets[shard.bucket]->maxSide.value_or(0));
        })) {}

  UpdateNeeds needs() const override {
    return {.unit = UpdateNeeds::Unit::Parameter,
            .scratchBytes = scratchBytes,
            .allocatesSometimes = true};
  }

  void update(const UpdatePart &part, const UpdateStep &step) const override {
    MatrixUpdate update(part, settings, step, isNarrow);
    if (step.number == 1)
      update.begin();
    else
      update.run();
  }

private:
  const plan::SoapT &settings;
  const bool isNarrow;
  const int64_t scratchBytes;
};

} // namespace

std::unique_ptr<Optimizer> makeOptimizer(const plan::SoapT &settings,
                                         const OptimizedShard &shard) {
  if (settings.preconditionFrequency == 0)
    throw std::runtime_error(
        "soap: expected 'precondition_frequency' from 1 on, got 0");
  return std::make_unique<Soap>(settings, shard);
}

} // namespace fcdp
