// SPDX-License-Identifier: Apache-2.0
//
// Implements Lion (arXiv 2302.06675).
#include "optimizers/Optimizer.h"

namespace fcdp {

namespace {

class Lion final : public Optimizer {
public:
  explicit Lion(const plan::LionT &settings) : settings(settings) {}

  UpdateNeeds needs() const override {
    return {.unit = UpdateNeeds::Unit::Piece, .numMemories = 2};
  }

  void update(const UpdatePart &part, const UpdateStep &step) const override {
    at::Tensor direction = part.memories[0], scaled = part.memories[1];
    at::Tensor expAvg = part.states[0], parameter = part.parameter;
    mixInto(direction.copy_(expAvg), settings.beta1, scaled.copy_(part.grad));
    mixInto(expAvg, settings.beta2, scaled.copy_(part.grad));
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
