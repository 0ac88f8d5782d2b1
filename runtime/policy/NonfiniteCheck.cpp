// SPDX-License-Identifier: Apache-2.0
#include "policy/NonfiniteCheck.h"

#include <cmath>
#include <sstream>

namespace fcdp {

namespace {

std::string describeNonfinite(const StepPlan &plan, const Nonfinite &found) {
  std::ostringstream text;
  if (found.microBatch)
    text << "the loss of micro-batch " << *found.microBatch + 1 << " of "
         << plan.microBatches << " on " << describeRank(plan.mesh, found.rank)
         << " is " << (std::isnan(found.loss) ? "NaN" : "infinite");
  else if (found.bucket >= 0)
    text << "a gradient of '" << plan.buckets[size_t(found.bucket)]->unit
         << "' is infinite or NaN";
  else
    text << "the norm of the gradients is infinite or NaN";
  return text.str();
}

} // namespace

std::optional<SessionError>
NonfiniteCheck::errorOf(const StepStats &stats,
                        const std::optional<LossScale> &scale) const {
  std::ostringstream text;
  text << "step " << stats.step << ": ";
  if (stats.skipped && scale && scale->isExhausted()) {
    text << "numbers are infinite or NaN with the loss scale " << scale->value()
         << ", and a smaller one cannot be used";
    return SessionError(SessionErrorCode::NotFinite, text.str());
  }
  // Gradients for which a step is skipped are not an error.
  bool isSettled = stats.skipped && onNonfinite == OnNonfinite::Skip;
  if (!stats.nonfinite || isSettled || onNonfinite == OnNonfinite::Continue)
    return std::nullopt;
  text << describeNonfinite(plan, *stats.nonfinite);
  if (!stats.nonfinite->microBatch)
    text << ", and the loss is " << stats.loss;
  if (onNonfinite == OnNonfinite::Skip)
    text << "; expected a step that is compiled with --clip-norm, which may be "
            "as large as 1e30, for steps to be skipped by their gradients";
  return SessionError(SessionErrorCode::NotFinite, text.str());
}

void NonfiniteCheck::note(const RankStats &own, int64_t step, uint32_t rank,
                          const std::optional<LossScale> &scale) {
  if (error)
    return;
  // This rank alone has the nonfinite number.
  StepStats stats = combine({1, 1}, {own});
  stats.step = step;
  if (stats.nonfinite)
    stats.nonfinite->rank = rank;
  error = errorOf(stats, scale);
}

} // namespace fcdp
