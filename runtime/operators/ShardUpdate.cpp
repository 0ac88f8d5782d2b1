// SPDX-License-Identifier: Apache-2.0
//
// The optimizer on this rank's shard, with PyTorch's own fused kernels.
#include "operators/PreparedOp.h"
#include "operators/UpdateSegments.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty.h>
#include <algorithm>

namespace fcdp {

namespace {

/// Used by the issuing thread only.
class ShardUpdate final : public PreparedOp {
public:
  ShardUpdate(const plan::ShardUpdateT &op, StepState &state)
      : op(op), bucket(*state.plan.buckets[op.bucket]),
        shard(flat(plan::StateRole::shard, state)),
        master(flat(plan::StateRole::master, state)),
        parameter(master.defined() ? master : shard),
        grad(flat(plan::StateRole::grad, state)) {
    expAvg = flat(plan::StateRole::exp_avg, state);
    expAvgSq = flat(plan::StateRole::exp_avg_sq, state);
    momentumBuffer = flat(plan::StateRole::momentum_buffer, state);
    for (const UpdateSegment &segment :
         updateSegments(state.plan, op.bucket, state.place))
      parts.push_back(cutPart(segment));
    if (state.plan.optimizer.Assgd() && parameter.device().is_cpu() &&
        at::isReducedFloatingType(parameter.scalar_type()))
      for (at::Tensor *wide : {&wideParameter, &wideGrad, &wideMomentum})
        *wide =
            at::empty({std::min(kWideElements, parameter.numel())}, at::kFloat);
  }

  void run(StepState &state) override {
    if (bucket.shardElements == 0 || state.skipsUpdates)
      return;
    grad.mul_(op.gradScale);
    at::Tensor typed = grad.to(parameter.scalar_type());
    UpdateState &update = state.updates[op.bucket];
    update.count.add_(1);
    for (const Part &part : parts) {
      const at::Tensor own =
          typed.is_same(grad)
              ? part.grad
              : typed.narrow(0, part.segment.begin, part.segment.elements);
      double rate = state.learningRate * part.segment.lrFactor;
      if (const plan::AdamWT *adamw = state.plan.optimizer.Asadamw())
        apply(*adamw, part, own, rate, update);
      else if (wideParameter.defined())
        applyWide(*state.plan.optimizer.Assgd(), part, own, rate, update);
      else
        apply(*state.plan.optimizer.Assgd(), part, own, rate, update);
    }
    if (master.defined())
      shard.copy_(master);
    ++update.number;
  }

private:
  /// The rank's part of a state, or no tensor if the bucket has no such state.
  at::Tensor flat(plan::StateRole role, StepState &state) const {
    const plan::State *found = findState(bucket, role);
    return found ? state.flat(found->buf(), bucket.shardElements,
                              toDType(found->dtype()))
                 : at::Tensor();
  }

  /// A segment of the shard and of its states.
  struct Part {
    UpdateSegment segment;
    at::Tensor parameter, grad, expAvg, expAvgSq, momentumBuffer;
  };

  Part cutPart(const UpdateSegment &segment) const {
    auto cut = [&](const at::Tensor &whole) {
      return whole.defined() ? whole.narrow(0, segment.begin, segment.elements)
                             : at::Tensor();
    };
    return {segment,     cut(parameter), cut(grad),
            cut(expAvg), cut(expAvgSq),  cut(momentumBuffer)};
  }

  void apply(const plan::AdamWT &adamw, const Part &part,
             const at::Tensor &typed, double rate, UpdateState &update) const {
    at::_fused_adamw_({part.parameter}, {typed}, {part.expAvg}, {part.expAvgSq},
                      {}, {update.count}, rate, adamw.beta1, adamw.beta2,
                      part.segment.weightDecay, adamw.eps,
                      /*amsgrad=*/false, /*maximize=*/false);
  }

  void apply(const plan::SgdT &sgd, const Part &part, const at::Tensor &typed,
             double rate, UpdateState &update) const {
    bool hasMomentum = sgd.momentum != 0;
    at::TensorList buffers =
        hasMomentum ? at::TensorList(part.momentumBuffer) : at::TensorList();
    at::_fused_sgd_({part.parameter}, {typed}, buffers,
                    part.segment.weightDecay, sgd.momentum, rate, sgd.dampening,
                    sgd.nesterov, /*maximize=*/false,
                    hasMomentum && update.number == 0);
  }

  /// libtorch's kernel of fused SGD updates f16 and bf16 wrongly on CPUs: whole
  /// vectors of parameters get values that have nothing to do with the
  /// gradients. So such shards are updated in f32, piece by piece, and each
  /// result is rounded once, as the kernel of AdamW does.
  void applyWide(const plan::SgdT &sgd, const Part &part,
                 const at::Tensor &typed, double rate, UpdateState &update) {
    for (int64_t begin = 0; begin < part.segment.elements;
         begin += kWideElements) {
      int64_t size = std::min(kWideElements, part.segment.elements - begin);
      auto widen = [&](const at::Tensor &narrow, at::Tensor &wide) {
        return narrow.defined() ? wide.narrow(0, 0, size)
                                      .copy_(narrow.narrow(0, begin, size))
                                : at::Tensor();
      };
      Part piece = part;
      piece.parameter = widen(part.parameter, wideParameter);
      piece.momentumBuffer = widen(part.momentumBuffer, wideMomentum);
      apply(sgd, piece, widen(typed, wideGrad), rate, update);
      part.parameter.narrow(0, begin, size).copy_(piece.parameter);
      if (part.momentumBuffer.defined())
        part.momentumBuffer.narrow(0, begin, size).copy_(piece.momentumBuffer);
    }
  }

  /// A multiple of all vectors' lengths.
  static constexpr int64_t kWideElements = 1 << 16;

  const plan::ShardUpdateT &op;
  const plan::BucketT &bucket;
  /// `parameter` is what the optimizer updates: the master, if there is one, or
  /// the shard.
  at::Tensor shard, master, parameter;
  at::Tensor grad, expAvg, expAvgSq, momentumBuffer;
  /// For SGD on f16 and bf16 without a master.
  at::Tensor wideParameter, wideGrad, wideMomentum;
  /// One, unless parameters of the bucket have different settings.
  std::vector<Part> parts;
};

} // namespace

std::unique_ptr<PreparedOp> prepareUpdate(const plan::ShardUpdateT &op,
                                          StepState &state) {
  return std::make_unique<ShardUpdate>(op, state);
}

} // namespace fcdp
