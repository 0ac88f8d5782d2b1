// SPDX-License-Identifier: Apache-2.0
//
// Implements Lion (arXiv 2302.06675).
#include "optimizers/Optimizer.h"

namespace fcdp {

namespace {

/// Rounds products before they are added, so that an element's bits do not
/// depend on its place in a vector.
class Lion final : public Optimizer {
public:
  explicit Lion(const plan::LionT &settings) : settings(settings) {}

  UpdateNeeds needs() const override {
    return {.unit = UpdateNeeds::Unit::Piece, .numMemories = 2};
  }

  void update(const UpdatePart &part, const UpdateStep &step) const override {
    at::Tensor direction = part.memories[0], scaled = part.memories[1];
    at::Tensor expAvg = part.states[0], parameter = part.parameter;
    auto mix = [&](at::Tensor target, double beta) {
      scaled.copy_(part.grad).mul_(1 - beta);
      target.mul_(beta).add_(scaled);
    };
    mix(direction.copy_(expAvg), settings.beta1);
    mix(expAvg, settings.beta2);
    parameter.mul_(1 - step.rate * part.segment.weightDecay);
    parameter.sub_(direction.sign_().mul_(step.rate));
  }

private:
  const plan::LionT &settings;
};

} // namespace

std::unique_ptr<Optimizer> makeOptimizer(const plan::LionT &settings,
                                         const OptimizedShard &) {
  return std::make_unique<Lion>(settings);
}

} // namespace fcdp
