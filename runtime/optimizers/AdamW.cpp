// SPDX-License-Identifier: Apache-2.0
#include "optimizers/Optimizer.h"

#include <ATen/ops/_fused_adamw.h>

namespace fcdp {

namespace {

/// Calls PyTorch's fused kernel.
class AdamW final : public Optimizer {
public:
  explicit AdamW(const plan::AdamWT &settings) : settings(settings) {}

  UpdateNeeds needs() const override { return {.dividesGradients = true}; }

  void update(const UpdatePart &part, const UpdateStep &step) const override {
    at::_fused_adamw_({part.parameter}, {part.grad}, {part.states[0]},
                      {part.states[1]}, {}, {step.count}, step.rate,
                      settings.beta1, settings.beta2, part.segment.weightDecay,
                      settings.eps, /*amsgrad=*/false, /*maximize=*/false,
                      step.divisor);
  }

private:
  const plan::AdamWT &settings;
};

} // namespace

std::unique_ptr<Optimizer> makeOptimizer(const plan::AdamWT &settings,
                                         const OptimizedShard &) {
  return std::make_unique<AdamW>(settings);
}

} // namespace fcdp
