// SPDX-License-Identifier: Apache-2.0
//
// Divides the gradients by the loss scale, and finds out whether they
// overflowed.
#include "operators/PreparedOp.h"

#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

namespace fcdp {

namespace {

/// Calls the kernel of torch.amp.GradScaler. On a GPU the host waits for the
/// result if it decides whether steps are skipped. Used by the issuing thread
/// only.
class UnscaleGradients final : public PreparedOp {
public:
  UnscaleGradients(const char *what, StepState &state) : what(what) {
    auto number = at::TensorOptions(at::kFloat).device(state.device);
    isNonfinite = at::zeros({1}, number);
    inverse = at::zeros({1}, number);
    flag = isNonfinite.select(0, 0);
    sum = at::zeros({}, number.dtype(at::kDouble));
    scratch = at::empty({int64_t(state.plan.mesh.size())}, sum.options());
    for (const auto &bucket : state.plan.buckets)
      if (const auto *grad = findState(*bucket, plan::StateRole::grad);
          grad && bucket->shardElements != 0)
        gradients.push_back(
            state.flat(grad->buf(), bucket->shardElements, DType::F32));
  }

  void run(StepState &state) override {
    isNonfinite.zero_();
    inverse.fill_(1 / state.lossScaleNumber);
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, isNonfinite,
                                                   inverse);
    sum.copy_(flag);
    state.backend.sumOverRanks(sum.mutable_data_ptr<double>(),
                               scratch.mutable_data_ptr<double>(), what);
    bool skips = state.skipsOverflow || state.onNonfinite == OnNonfinite::Skip;
    if (skips && sum.item<double>() != 0)
      state.skipsUpdates = true;
  }

private:
  const char *const what;
  std::vector<at::Tensor> gradients;
  /// A number that is 1 if a gradient of this rank is infinite or NaN, the same
  /// as a tensor without dimensions, and the factor on gradients.
  at::Tensor isNonfinite, flag, inverse;
  /// The number of ranks that have such gradients, an f64 without dimensions.
  at::Tensor sum;
  at::Tensor scratch; ///< a number of each rank
};

} // namespace

PreparedOpPtr prepare(const plan::UnscaleGradientsT &, const char *what,
                      StepState &state) {
  return std::make_unique<UnscaleGradients>(what, state);
}

std::optional<uint64_t> countBytes(const plan::UnscaleGradientsT &,
                                   const StepPlan &plan) {
  return plan.gradientBytes();
}

} // namespace fcdp
