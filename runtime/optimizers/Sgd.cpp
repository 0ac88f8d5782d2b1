// SPDX-License-Identifier: Apache-2.0
#include "optimizers/Optimizer.h"

#include <ATen/ops/_fused_sgd.h>

namespace fcdp {

namespace {

/// Calls PyTorch's fused kernel.
class Sgd final : public Optimizer {
public:
  /// On CPUs, libtorch's kernel updates f16 and bf16 wrongly: whole vectors of
  /// parameters get values unrelated to the gradients. They are widened.
  Sgd(const plan::SgdT &settings, const at::Tensor &parameter)
      : settings(settings),
        isWidened(parameter.is_cpu() &&
                  at::isReducedFloatingType(parameter.scalar_type())) {}

  UpdateNeeds needs() const override {
    return {.unit = isWidened ? UpdateNeeds::Unit::Piece
                              : UpdateNeeds::Unit::Segment,
            .dividesGradients = !isWidened};
  }

  void update(const UpdatePart &part, const UpdateStep &step) const override {
    bool hasMomentum = settings.momentum != 0;
    at::TensorList momentum =
        hasMomentum ? at::TensorList(part.states[0]) : at::TensorList();
    at::_fused_sgd_({part.parameter}, {part.grad}, momentum,
                    part.segment.weightDecay, settings.momentum, step.rate,
                    settings.dampening, settings.nesterov, /*maximize=*/false,
                    hasMomentum && step.number == 1, step.divisor);
  }

private:
  const plan::SgdT &settings;
  const bool isWidened;
};

} // namespace

std::unique_ptr<Optimizer> makeOptimizer(const plan::SgdT &settings,
                                         const OptimizedShard &shard) {
  return std::make_unique<Sgd>(settings, shard.parameter);
}

} // namespace fcdp
