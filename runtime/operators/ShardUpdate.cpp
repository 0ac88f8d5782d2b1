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
  ShardUpdate(const ops::ShardUpdate &op, StepState &state)
      : op(op), bucket(state.manifest.buckets[op.bucket]),
        parameter(flat(*bucket.shard, state)), grad(flat(*bucket.grad, state)) {
    if (bucket.expAvg && bucket.expAvgSq) {
      expAvg = flat(*bucket.expAvg, state);
      expAvgSq = flat(*bucket.expAvgSq, state);
    }
    if (bucket.momentumBuffer)
      momentumBuffer = flat(*bucket.momentumBuffer, state);
  }

  void run(StepState &state) override {
    if (bucket.shardElements == 0)
      return;
    grad.mul_(op.gradScale);
    at::Tensor typed = grad.to(parameter.scalar_type());
    UpdateState &update = state.updates[op.bucket];
    std::visit([&](const auto &optimizer) { apply(optimizer, typed, update); },
               state.manifest.optimizer);
    update.isFirst = false;
  }

private:
  at::Tensor flat(const TypedBuf &buf, StepState &state) const {
    return state.flat(buf, bucket.shardElements, buf.dtype);
  }

  void apply(const AdamW &adamw, const at::Tensor &typed,
             UpdateState &update) const {
    update.count.add_(1);
    at::_fused_adamw_({parameter}, {typed}, {expAvg}, {expAvgSq}, {},
                      {update.count}, adamw.lr, adamw.beta1, adamw.beta2,
                      adamw.weightDecay, adamw.eps, /*amsgrad=*/false,
                      /*maximize=*/false);
  }

  void apply(const Sgd &sgd, const at::Tensor &typed,
             UpdateState &update) const {
    bool hasMomentum = sgd.momentum != 0;
    at::TensorList buffers =
        hasMomentum ? at::TensorList(momentumBuffer) : at::TensorList();
    at::_fused_sgd_({parameter}, {typed}, buffers, sgd.weightDecay,
                    sgd.momentum, sgd.lr, sgd.dampening, sgd.nesterov,
                    /*maximize=*/false, hasMomentum && update.isFirst);
  }

  const ops::ShardUpdate &op;
  const Bucket &bucket;
  at::Tensor parameter, grad, expAvg, expAvgSq, momentumBuffer;
};

} // namespace

std::unique_ptr<PreparedOp> prepareUpdate(const ops::ShardUpdate &op,
                                          StepState &state) {
  return std::make_unique<ShardUpdate>(op, state);
}

} // namespace fcdp
