// SPDX-License-Identifier: Apache-2.0
//
// Implements AdamW with moments in 8 bits, as torchao.optim.AdamW8bit does.
#include "optimizers/BlockStates.h"
#include "optimizers/Optimizer.h"

#include <cmath>

namespace fcdp {

namespace {

class AdamW8bit final : public Optimizer {
public:
  AdamW8bit(const plan::AdamW8bitT &settings, const OptimizedShard &shard)
      : settings(settings),
        signedCodec(/*isSigned=*/true, shard.parameter.device()),
        unsignedCodec(/*isSigned=*/false, shard.parameter.device()),
        codeIndices(shard.memory.row(at::kInt, 0)) {}

  UpdateNeeds needs() const override {
    return {.unit = UpdateNeeds::Unit::Piece, .numMemories = 4};
  }

  void update(const UpdatePart &part, const UpdateStep &step) const override {
    at::Tensor first = part.memories[0], second = part.memories[1];
    at::Tensor scaled = part.memories[2], direction = part.memories[3];
    at::Tensor indices = codeIndices.narrow(0, 0, part.segment.elements);
    auto number = double(step.number);
    signedCodec.decode(first, part.states[0], part.states[1], indices);
    unsignedCodec.decode(second, part.states[2], part.states[3], indices);
    mixInto(first, settings.beta1, scaled.copy_(part.grad));
    mixInto(second, settings.beta2, scaled.copy_(part.grad).mul_(part.grad));

    at::Tensor parameter = part.parameter;
    parameter.mul_(1 - step.rate * part.segment.weightDecay);
    scaled.copy_(second).sqrt_();
    scaled.div_(std::sqrt(1 - std::pow(settings.beta2, number)))
        .add_(settings.eps);
    direction.copy_(first).div_(scaled);
    direction.mul_(step.rate / (1 - std::pow(settings.beta1, number)));
    parameter.sub_(direction);

    signedCodec.encode(part.states[0], part.states[1], first, indices, scaled);
    unsignedCodec.encode(part.states[2], part.states[3], second, indices,
                         scaled);
  }

private:
  const plan::AdamW8bitT &settings;
  const BlockCodec signedCodec, unsignedCodec;
  const at::Tensor codeIndices;
};

} // namespace

std::unique_ptr<Optimizer> makeOptimizer(const plan::AdamW8bitT &settings,
                                         const OptimizedShard &shard) {
  return std::make_unique<AdamW8bit>(settings, shard);
}

} // namespace fcdp
