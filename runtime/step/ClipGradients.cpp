// SPDX-License-Identifier: Apache-2.0
//
// The bound on the gradients' norm, over all ranks.
#include "step/PreparedOp.h"

#include <ATen/ops/linalg_vector_norm.h>
#include <cmath>

namespace fcdp {

namespace {

/// Used by the issuing thread only.
class ClipGradients final : public PreparedOp {
public:
  ClipGradients(const Op &op, StepState &state)
      : op(std::get<ops::ClipGradients>(op.body)), what(op.what),
        squares(state.manifest.mesh.size()) {
    for (const Bucket &bucket : state.manifest.buckets)
      if (bucket.grad && bucket.shardElements != 0)
        grads.push_back(makeGrad(bucket, state));
  }

  void run(StepState &state) override {
    double own = 0;
    for (const Grad &grad : grads) {
      double norm = at::linalg_vector_norm(grad.part, 2, std::nullopt,
                                           /*keepdim=*/false, at::kDouble)
                        .item<double>();
      own += norm * norm;
    }
    state.backend.gatherNumbers(own, squares, what.c_str());
    double norm =
        std::sqrt(sumInShardOrder(state.manifest.mesh)) * op.gradScale;
    // As torch.nn.utils.clip_grad_norm_; what is no number stays none.
    double factor = op.maxNorm / (norm + 1e-6);
    if (factor >= 1)
      return;
    for (Grad &grad : grads)
      grad.all.mul_(factor);
  }

private:
  struct Grad {
    at::Tensor all;
    /// This rank's own of as many shards as there are ranks: so each counts
    /// once, and sums are the same whatever ranks hold beside it.
    at::Tensor part;
  };

  static Grad makeGrad(const Bucket &bucket, StepState &state) {
    const Mesh &mesh = state.manifest.mesh;
    at::Tensor all =
        state.flat(*bucket.grad, bucket.shardElements, bucket.grad->dtype);
    int64_t size = bucket.elements / mesh.size();
    int64_t begin =
        partOf(Sharding::World, mesh, state.place) * size -
        partOf(bucket.sharding, mesh, state.place) * bucket.shardElements;
    return {all, all.narrow(0, begin, size)};
  }

  /// Rank (n, l) owns shard l N + n.
  double sumInShardOrder(const Mesh &mesh) const {
    double sum = 0;
    for (uint32_t local = 0; local < mesh.locals; ++local)
      for (uint32_t node = 0; node < mesh.nodes; ++node)
        sum += squares[node * mesh.locals + local];
    return sum;
  }

  const ops::ClipGradients &op;
  const std::string &what;
  std::vector<Grad> grads;
  /// By world rank.
  std::vector<double> squares;
};

} // namespace

std::unique_ptr<PreparedOp> prepareClipping(const Op &op, StepState &state) {
  return std::make_unique<ClipGradients>(op, state);
}

} // namespace fcdp
