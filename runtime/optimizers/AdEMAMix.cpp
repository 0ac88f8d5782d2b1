// SPDX-License-Identifier: Apache-2.0
//
// Implements AdEMAMix (arXiv 2409.03137).
#include "optimizers/Optimizer.h"

#include <cmath>

namespace fcdp {

namespace {

/// Returns the number of updates after which a gradient counts half in an
/// average with `beta`, less one.
double halfLife(double beta) {
  constexpr double kNotZero = 1e-8;
  return std::log(0.5) / std::log(beta + kNotZero) - 1;
}

class AdEMAMix final : public Optimizer {
public:
  explicit AdEMAMix(const plan::AdEMAMixT &settings) : settings(settings) {}

  UpdateNeeds needs() const override {
    return {.unit = UpdateNeeds::Unit::Piece, .numMemories = 2};
  }

  void update(const UpdatePart &part, const UpdateStep &step) const override {
    at::Tensor direction = part.memories[0], scaled = part.memories[1];
    at::Tensor fast = part.states[0], squares = part.states[1],
               slow = part.states[2], parameter = part.parameter;
    auto number = double(step.number);
    mixInto(fast, settings.beta1, scaled.copy_(part.grad));
    mixInto(slow, beta3At(number), scaled.copy_(part.grad));
    mixInto(squares, settings.beta2, scaled.copy_(part.grad).mul_(part.grad));

    direction.copy_(slow).mul_(alphaAt(number));
    scaled.copy_(fast).div_(1 - std::pow(settings.beta1, number));
    direction.add_(scaled);
    scaled.copy_(squares).sqrt_();
    scaled.div_(std::sqrt(1 - std::pow(settings.beta2, number)))
        .add_(settings.eps);
    direction.div_(scaled).mul_(step.rate);
    parameter.mul_(1 - step.rate * part.segment.weightDecay);
    parameter.sub_(direction);
  }

private:
  double alphaAt(double number) const {
    bool isWarm = number >= settings.alphaWarmup;
    return settings.alpha * (isWarm ? 1 : number / settings.alphaWarmup);
  }

  /// The half-life grows linearly.
  double beta3At(double number) const {
    if (number >= settings.beta3Warmup)
      return settings.beta3;
    double done = number / settings.beta3Warmup;
    double life =
        (1 - done) * halfLife(settings.beta1) + done * halfLife(settings.beta3);
    return std::pow(0.5, 1 / (life + 1));
  }

  const plan::AdEMAMixT &settings;
};

} // namespace

std::unique_ptr<Optimizer> makeOptimizer(const plan::AdEMAMixT &settings,
                                         const OptimizedShard &) {
  return std::make_unique<AdEMAMix>(settings);
}

} // namespace fcdp
