// SPDX-License-Identifier: Apache-2.0
//
// The optimizer on this rank's shard, with PyTorch's own fused kernels.
#include "operators/PreparedOp.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>

namespace fcdp {

namespace {

/// Used by the issuing thread only.
class ShardUpdate final : public PreparedOp {
public:
  ShardUpdate(const plan::ShardUpdateT &op, StepState &state)
      : op(op), bucket(*state.plan.buckets[op.bucket]),
        parameter(flat(plan::StateRole::shard, state)),
        grad(flat(plan::StateRole::grad, state)) {
    expAvg = flat(plan::StateRole::exp_avg, state);
    expAvgSq = flat(plan::StateRole::exp_avg_sq, state);
    momentumBuffer = flat(plan::StateRole::momentum_buffer, state);
  }

  void run(StepState &state) override {
    if (bucket.shardElements == 0 || state.skipsUpdates)
      return;
    grad.mul_(op.gradScale);
    at::Tensor typed = grad.to(parameter.scalar_type());
    UpdateState &update = state.updates[op.bucket];
    if (const plan::AdamWT *adamw = state.plan.optimizer.Asadamw())
      apply(*adamw, typed, update, state.learningRate);
    else
      apply(*state.plan.optimizer.Assgd(), typed, update, state.learningRate);
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

  void apply(const plan::AdamWT &adamw, const at::Tensor &typed,
             UpdateState &update, double learningRate) const {
    update.count.add_(1);
    at::_fused_adamw_({parameter}, {typed}, {expAvg}, {expAvgSq}, {},
                      {update.count}, learningRate, adamw.beta1, adamw.beta2,
                      adamw.weightDecay, adamw.eps, /*amsgrad=*/false,
                      /*maximize=*/false);
  }

  void apply(const plan::SgdT &sgd, const at::Tensor &typed,
             UpdateState &update, double learningRate) const {
    bool hasMomentum = sgd.momentum != 0;
    at::TensorList buffers =
        hasMomentum ? at::TensorList(momentumBuffer) : at::TensorList();
    at::_fused_sgd_({parameter}, {typed}, buffers, sgd.weightDecay,
                    sgd.momentum, learningRate, sgd.dampening, sgd.nesterov,
                    /*maximize=*/false, hasMomentum && update.number == 0);
  }

  const plan::ShardUpdateT &op;
  const plan::BucketT &bucket;
  at::Tensor parameter, grad, expAvg, expAvgSq, momentumBuffer;
};

} // namespace

std::unique_ptr<PreparedOp> prepareUpdate(const plan::ShardUpdateT &op,
                                          StepState &state) {
  return std::make_unique<ShardUpdate>(op, state);
}

} // namespace fcdp
