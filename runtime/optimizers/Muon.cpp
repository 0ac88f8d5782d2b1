// SPDX-License-Identifier: Apache-2.0
//
// Implements Muon, as torch.optim.Muon does.
#include "optimizers/NewtonSchulz.h"
#include "optimizers/Optimizer.h"

#include <array>

namespace fcdp {

namespace {

/// Leaves its direction in the gradient.
class Muon final : public Optimizer {
public:
  Muon(const plan::MuonT &settings, const OptimizedShard &shard)
      : settings(settings),
        scratchBytes(mostBytes(shard, [](const plan::ParameterT &parameter) {
          return orthogonalizeBytes(parameter.shape[0], parameter.shape[1]);
        })) {}

  UpdateNeeds needs() const override {
    return {.unit = UpdateNeeds::Unit::Parameter, .scratchBytes = scratchBytes};
  }

  void update(const UpdatePart &part, const UpdateStep &step) const override {
    std::array<int64_t, 2> shape = {part.segment.rows, part.segment.columns};
    at::Tensor grad = part.grad.view(shape);
    at::Tensor momentum = part.states[0].view(shape);
    momentum.lerp_(grad, 1 - settings.momentum);
    if (settings.nesterov)
      grad.lerp_(momentum, settings.momentum);
    orthogonalize(grad, settings.nesterov ? grad : momentum, settings,
                  step.scratch);
    at::Tensor parameter = part.parameter.view(shape);
    parameter.mul_(1 - step.rate * part.segment.weightDecay);
    parameter.add_(grad, -step.rate * adjustedRate(settings, shape));
  }

private:
  const plan::MuonT &settings;
  const int64_t scratchBytes;
};

} // namespace

std::unique_ptr<Optimizer> makeOptimizer(const plan::MuonT &settings,
                                         const OptimizedShard &shard) {
  return std::make_unique<Muon>(settings, shard);
}

} // namespace fcdp
