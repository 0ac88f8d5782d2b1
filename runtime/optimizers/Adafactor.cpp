// SPDX-License-Identifier: Apache-2.0
#include "optimizers/Adafactor.h"

#include "optimizers/Optimizer.h"
#include "optimizers/ScratchMemory.h"
#include "plan/StatePlaces.h"

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <algorithm>
#include <cmath>
#include <limits>

namespace fcdp {

namespace {

/// Returns the type of the arithmetic.
at::ScalarType wideType(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

double epsilonOf(at::ScalarType type) {
  switch (type) {
  case at::kHalf:
    return std::numeric_limits<at::Half>::epsilon();
  case at::kBFloat16:
    return std::numeric_limits<at::BFloat16>::epsilon();
  case at::kDouble:
    return std::numeric_limits<double>::epsilon();
  default:
    return std::numeric_limits<float>::epsilon();
  }
}

/// One update of one parameter, in the scratch memory.
class Update {
public:
  Update(const AdafactorPart &part, const plan::AdafactorT &settings,
         int64_t step, const at::Tensor &scratch)
      : part(part), settings(settings), step(double(step)),
        type(wideType(part.parameter.scalar_type())),
        isWidened(type != part.parameter.scalar_type()),
        eps1(settings.eps1.value_or(epsilonOf(part.parameter.scalar_type()))),
        memory(scratch), update(memory.take({part.parameter.numel()}, type)) {}

  void run(double rate) {
    at::Tensor alpha = relativeRate(rate), grad = part.grad;
    if (isWidened) {
      at::Tensor wide = part.memory;
      grad = wide.copy_(part.grad);
    }
    if (part.columns != 0)
      estimateFactored(grad);
    else
      estimate(grad);
    update.clamp_min_(eps1 * eps1).rsqrt_().mul_(grad);
    alpha.div_(rootMeanSquare(update).div_(settings.d).clamp_min_(1));
    update.mul_(memory.take({}, type).copy_(alpha));
    at::Tensor parameter = part.parameter, wide = part.memory;
    at::Tensor value = isWidened ? wide.copy_(parameter) : parameter;
    value.mul_(1 - rate * part.weightDecay).sub_(update);
    if (isWidened)
      parameter.copy_(value);
  }

private:
  /// Returns the root mean square in f64. It is 0 for NaN, because PyTorch uses
  /// Python's `max`.
  at::Tensor rootMeanSquare(const at::Tensor &values) {
    at::Tensor norm = memory.take({}, type),
               mean = memory.take({}, at::kDouble);
    at::linalg_vector_norm_out(norm, values, 2);
    mean.copy_(norm).nan_to_num_(0, std::numeric_limits<double>::infinity());
    return mean.div_(std::sqrt(double(values.numel())));
  }

  /// Returns the relative size of the step times that of the parameter.
  at::Tensor relativeRate(double rate) {
    at::Tensor parameter =
        isWidened ? update.copy_(part.parameter) : part.parameter;
    double relative = std::min(rate, 1 / std::sqrt(step));
    return rootMeanSquare(parameter).clamp_min_(settings.eps2).mul_(relative);
  }

  /// Moves a state towards `mean`, which becomes the new state in the type of
  /// the arithmetic.
  at::Tensor move(at::Tensor state, const at::Tensor &mean) {
    at::Tensor wide =
        memory.take(mean.sizes(), type).copy_(state.view(mean.sizes()));
    wide.lerp_(mean, std::pow(step, settings.beta2Decay));
    state.view(mean.sizes()).copy_(wide);
    return wide;
  }

  /// Returns the mean square of the gradient over a dimension, which stays with
  /// size 1.
  at::Tensor meanSquare(const at::Tensor &grad, int64_t dimension) {
    at::DimVector shape(grad.sizes());
    shape[dimension] = 1;
    at::Tensor mean = memory.take(shape, type);
    at::linalg_vector_norm_out(mean, grad, 2, dimension, /*keepdim=*/true);
    return mean.square_().div_(grad.size(dimension));
  }

  void estimateFactored(const at::Tensor &flat) {
    at::Tensor grad = flat.view({-1, part.rows, part.columns});
    at::Tensor row = move(part.rowVar, meanSquare(grad, 2));
    at::Tensor column = move(part.colVar, meanSquare(grad, 1));
    at::Tensor whole = update.view(grad.sizes());
    at::mul_out(whole, row, column);
    at::Tensor mean = memory.take({grad.size(0), 1, 1}, type);
    at::mean_out(mean, row, 1, /*keepdim=*/true);
    whole.div_(mean.clamp_min_(eps1));
  }

  void estimate(const at::Tensor &grad) {
    at::Tensor square = memory.take(grad.sizes(), type);
    at::mul_out(square, grad, grad);
    update.copy_(move(part.variance, square));
  }

  const AdafactorPart &part;
  const plan::AdafactorT &settings;
  const double step;
  const at::ScalarType type;
  const bool isWidened;
  const double eps1;
  ScratchMemory memory;
  at::Tensor update;
};

} // namespace

int64_t adafactorBytes(const plan::ParameterT &parameter) {
  const Shape &shape = parameter.shape;
  int64_t elements = numElements(shape);
  if (elements == 0)
    return 0;
  int64_t width = parameter.dtype == plan::DType::f64 ? 8 : 4;
  constexpr int64_t numbers = 5;
  int64_t bytes = placeBytes(elements, width) + numbers * placeBytes(1, 8);
  for (plan::StateRole role :
       {plan::StateRole::row_var, plan::StateRole::col_var,
        plan::StateRole::variance})
    if (std::optional<Shape> own = stateShape(role, shape, 0))
      bytes += 2 * placeBytes(numElements(*own), width);
  if (shape.size() >= 2)
    bytes += placeBytes(
        elements / (shape[shape.size() - 2] * shape[shape.size() - 1]), width);
  return bytes;
}

void updateAdafactor(const AdafactorPart &part,
                     const plan::AdafactorT &settings, double rate,
                     int64_t step, const at::Tensor &scratch) {
  Update(part, settings, step, scratch).run(rate);
}

namespace {

class Adafactor final : public Optimizer {
public:
  Adafactor(const plan::AdafactorT &settings, const OptimizedShard &shard)
      : settings(settings), scratchBytes(mostBytes(shard, adafactorBytes)) {}

  UpdateNeeds needs() const override {
    return {.unit = UpdateNeeds::Unit::Parameter, .scratchBytes = scratchBytes};
  }

  void update(const UpdatePart &part, const UpdateStep &step) const override {
    const UpdateSegment &of = part.segment;
    updateAdafactor({part.parameter, part.grad, part.sum, of.rows, of.columns,
                     part.states[0], part.states[1], part.states[2],
                     of.weightDecay},
                    settings, step.rate, step.number, step.scratch);
  }

private:
  const plan::AdafactorT &settings;
  const int64_t scratchBytes;
};

} // namespace

std::unique_ptr<Optimizer> makeOptimizer(const plan::AdafactorT &settings,
                                         const OptimizedShard &shard) {
  return std::make_unique<Adafactor>(settings, shard);
}

} // namespace fcdp
