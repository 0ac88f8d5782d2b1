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

/// Elements whose squares are added in f32, as PyTorch does. The sums of blocks
/// are added in f64. A norm with a result in f64 would copy all gradients to
/// f64 first, and consumer GPUs compute that at 1/64 of the rate. A block of
/// random values has an error of 4e-9.
constexpr int64_t blockElements = 4096;

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
        addGrad(*bucket, grad->buf(), state);
    norms = at::empty({numBlocks}, options.dtype(at::kFloat));
    squares = at::empty({numBlocks}, options);
    int64_t first = 0;
    for (Blocks &part : blocks) {
      part.norms = norms.narrow(0, first, part.parts.size(0));
      first += part.parts.size(0);
    }
  }

  void run(StepState &state) override {
    for (Blocks &part : blocks)
      at::linalg_vector_norm_out(part.norms, part.parts, 2, 1);
    squares.copy_(norms).square_();
    at::sum_out(sum, squares, 0);
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
    for (at::Tensor &grad : grads)
      grad.mul_(factor);
  }

private:
  /// Blocks of equal size of a gradient.
  struct Blocks {
    at::Tensor parts; ///< a row for each block
    at::Tensor norms; ///< in f32
  };

  void addGrad(const plan::BucketT &bucket, const plan::Buf &buf,
               StepState &state) {
    grads.push_back(state.flat(buf, bucket.shardElements, DType::F32));
    at::Tensor part = ownPart(grads.back(), bucket, state);
    const int64_t tail = part.size(0) % blockElements;
    addBlocks(part.narrow(0, 0, part.size(0) - tail), blockElements);
    addBlocks(part.narrow(0, part.size(0) - tail, tail), tail);
  }

  void addBlocks(const at::Tensor &part, int64_t elements) {
    if (part.size(0) == 0)
      return;
    blocks.push_back({part.view({-1, elements}), at::Tensor()});
    numBlocks += blocks.back().parts.size(0);
  }

  /// Returns as many shards of this rank as there are ranks that share the
  /// update. So each gradient counts once, and sums do not depend on the
  /// replicas that ranks have.
  static at::Tensor ownPart(const at::Tensor &all, const plan::BucketT &bucket,
                            const StepState &state) {
    const Mesh &mesh = state.plan.mesh;
    if (state.plan.reducesWithinNodes())
      return all;
    int64_t size = bucket.elements / mesh.size();
    int64_t begin =
        partOf(plan::Sharding::world, mesh, state.place) * size -
        partOf(bucket.sharding, mesh, state.place) * bucket.shardElements;
    return all.narrow(0, begin, size);
  }

  const plan::ClipGradientsT &op;
  const char *const what;
  std::vector<at::Tensor> grads;
  std::vector<Blocks> blocks;
  int64_t numBlocks = 0;
  at::Tensor norms, squares; ///< a number of each block
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
