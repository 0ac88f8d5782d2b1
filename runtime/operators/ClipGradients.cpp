// SPDX-License-Identifier: Apache-2.0
//
// Clips gradients to a bound on their norm, over all ranks that share the
// update. With outer steps these are the ranks of a node.
#include "operators/PreparedOp.h"

#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <cmath>

namespace fcdp {

namespace {

/// Clips gradients on their device. On a GPU the host reads no value, unless
/// the norm decides whether steps are skipped. Used by the issuing thread only.
class ClipGradients final : public PreparedOp {
public:
  ClipGradients(const plan::ClipGradientsT &op, const char *what,
                StepState &state)
      : op(op), what(what) {
    auto options = at::TensorOptions(at::kDouble).device(state.device);
    sum = at::empty({}, options);
    factor = at::empty({}, options);
    maxNorm = at::full({}, op.maxNorm, options);
    scratch = at::empty({int64_t(state.plan.mesh.size())}, options);
    state.gradientNorm = at::zeros({}, options);
    for (const auto &bucket : state.plan.buckets)
      if (const auto *grad = findState(*bucket, plan::StateRole::grad);
          grad && bucket->shardElements != 0)
        grads.push_back(makeGrad(*bucket, grad->buf(), state));
  }

  void run(StepState &state) override {
    sum.zero_();
    for (const Grad &grad : grads) {
      at::Tensor norm = at::linalg_vector_norm(grad.part, 2, std::nullopt,
                                               /*keepdim=*/false, at::kDouble);
      sum.add_(norm.mul_(norm));
    }
    state.backend.sumOverRanks(sum.mutable_data_ptr<double>(),
                               scratch.mutable_data_ptr<double>(), what);
    // The numbers are in the order of shards: rank (n, l) owns shard l N + n.
    if (state.plan.reducesWithinNodes())
      at::sum_out(sum,
                  scratch.view({-1, int64_t(state.plan.mesh.nodes)})
                      .select(1, int64_t(state.place.node)),
                  0);
    // This is as in torch.nn.utils.clip_grad_norm_. A norm that is NaN stays
    // NaN.
    sum.sqrt_().mul_(op.gradScale);
    state.gradientNorm.copy_(sum);
    if (state.onNonfinite == OnNonfinite::Skip &&
        !std::isfinite(sum.item<double>()))
      state.skipsUpdates = true;
    sum.add_(1e-6);
    at::div_out(factor, maxNorm, sum).clamp_max_(1);
    for (Grad &grad : grads)
      grad.all.mul_(factor);
  }

private:
  struct Grad {
    at::Tensor all;
    /// As many shards of this rank as there are ranks that share the update. So
    /// each gradient counts once, and sums do not depend on the replicas that
    /// ranks have.
    at::Tensor part;
  };

  static Grad makeGrad(const plan::BucketT &bucket, const plan::Buf &buf,
                       StepState &state) {
    const Mesh &mesh = state.plan.mesh;
    at::Tensor all = state.flat(buf, bucket.shardElements, DType::F32);
    if (state.plan.reducesWithinNodes())
      return {all, all};
    int64_t size = bucket.elements / mesh.size();
    int64_t begin =
        partOf(plan::Sharding::world, mesh, state.place) * size -
        partOf(bucket.sharding, mesh, state.place) * bucket.shardElements;
    return {all, all.narrow(0, begin, size)};
  }

  const plan::ClipGradientsT &op;
  const char *const what;
  std::vector<Grad> grads;
  /// The sum of squares, then the norm. An f64 without dimensions, as the
  /// others are.
  at::Tensor sum;
  at::Tensor factor, maxNorm;
  at::Tensor scratch; ///< a number of each rank
};

} // namespace

PreparedOpPtr prepare(const plan::ClipGradientsT &op, const char *what,
                      StepState &state) {
  return std::make_unique<ClipGradients>(op, what, state);
}

std::optional<uint64_t> countBytes(const plan::ClipGradientsT &,
                                   const StepPlan &plan) {
  return plan.gradientBytes();
}

} // namespace fcdp
