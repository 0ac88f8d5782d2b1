// SPDX-License-Identifier: Apache-2.0
//
// Handles infinite and NaN numbers in a session.
#include "session/SessionImpl.h"

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
Session::Impl::nonfiniteError(const StepStats &stats) const {
  std::ostringstream text;
  text << "step " << stats.step << ": ";
  if (stats.skipped && lossScale && lossScale->isExhausted()) {
    text << "numbers are infinite or NaN with the loss scale "
         << lossScale->value() << ", and a smaller one cannot be used";
    return SessionError(SessionErrorCode::NotFinite, text.str());
  }
  // Gradients for which a step is skipped are not an error.
  bool isSettled = stats.skipped && options.onNonfinite == OnNonfinite::Skip;
  if (!stats.nonfinite || isSettled ||
      options.onNonfinite == OnNonfinite::Continue)
    return std::nullopt;
  text << describeNonfinite(plan, *stats.nonfinite);
  if (!stats.nonfinite->microBatch)
    text << ", and the loss is " << stats.loss;
  if (options.onNonfinite == OnNonfinite::Skip)
    text << "; expected a step that is compiled with --clip-norm, which may be "
            "as large as 1e30, for steps to be skipped by their gradients";
  return SessionError(SessionErrorCode::NotFinite, text.str());
}

void Session::Impl::noteNonfinite(const RankStats &stats) {
  if (notFinite)
    return;
  // This rank alone has the nonfinite number.
  StepStats own = fcdp::combine({1, 1}, {stats});
  own.step = numRead();
  if (own.nonfinite)
    own.nonfinite->rank = job->rank();
  notFinite = nonfiniteError(own);
}

void Session::Impl::endTogether(const SessionError &error) {
  if (saver)
    saver->wait();
  job->finish();
  phase = Phase::Failed;
  throw error;
}

void Session::requireFinite(const StepStats &stats) {
  auto error = impl->nonfiniteError(stats);
  impl->attempt(SessionErrorCode::Failed, [&] {
    if (error)
      impl->endTogether(*error);
  });
}

} // namespace fcdp
