// SPDX-License-Identifier: Apache-2.0
//
// Manages the loss scale of a session's steps.
#include "session/SessionImpl.h"

#include "files/Json.h"

namespace fcdp {

namespace {

/// Members of a checkpoint's job settings.
constexpr const char *kScalingKey = "loss_scaling";
constexpr const char *kScaleKey = "loss_scale";
constexpr const char *kTrackerKey = "growth_tracker";

} // namespace

void Session::Impl::makeLossScale() {
  if (!plan.scalesLoss() && options.lossScaling)
    throw SessionError(SessionErrorCode::Misuse,
                       "expected a step that is compiled with --loss-scale=on, "
                       "as a loss scale is given");
  if (!plan.scalesLoss())
    return;
  lossScale.emplace(options.lossScaling.value_or(LossScaling()));
  checkLossScale();
}

void Session::Impl::checkLossScale() const {
  if (options.onNonfinite == OnNonfinite::Continue &&
      !lossScale->scaling().isFixed())
    throw SessionError(
        SessionErrorCode::Misuse,
        "a loss scale that is not fixed skips steps whose gradients are "
        "infinite or NaN; expected such steps to stop or to be skipped, or a "
        "fixed loss scale");
}

nlohmann::json Session::Impl::withoutLossScale(nlohmann::json job) {
  for (const char *key : {kScalingKey, kScaleKey, kTrackerKey})
    job.erase(key);
  return job;
}

nlohmann::json Session::Impl::withLossScale(nlohmann::json job) const {
  job = withoutLossScale(std::move(job));
  if (!lossScale)
    return job;
  if (!lossScale->scaling().text().empty())
    job[kScalingKey] = lossScale->scaling().text();
  job[kScaleKey] = lossScale->value();
  job[kTrackerKey] = lossScale->growthTracker();
  return job;
}

void Session::Impl::takeLossScale(const nlohmann::json &job,
                                  const std::string &origin) {
  if (!lossScale)
    return;
  JsonNode node(job, origin);
  if (!options.lossScaling && node.has(kScalingKey)) {
    JsonNode stored = node.at(kScalingKey);
    lossScale.emplace(LossScaling::parse(stored.text(), stored.path()));
    checkLossScale();
  }
  if (lossScale->scaling().isFixed() || !node.has(kScaleKey))
    return;
  double scale = node.at(kScaleKey).number();
  if (!LossScale::isValid(scale))
    node.at(kScaleKey).expected("a scale from 2^-24 to 3.4e38");
  lossScale->restore(float(scale), node.at(kTrackerKey).integer(0));
}

std::optional<LossScale> Session::lossScale() const { return impl->lossScale; }

void Session::setLossScale(const LossScaling &scaling, int64_t growthTracker) {
  impl->requireLoading("setting the loss scale");
  if (!impl->lossScale)
    throw SessionError(SessionErrorCode::Misuse,
                       "expected a step that is compiled with --loss-scale=on, "
                       "as a loss scale is given");
  if (growthTracker < 0)
    throw SessionError(SessionErrorCode::Misuse,
                       "expected a growth tracker of at least 0, got " +
                           std::to_string(growthTracker));
  LossScale before = *impl->lossScale;
  impl->lossScale.emplace(scaling);
  impl->lossScale->restore(impl->lossScale->value(), growthTracker);
  try {
    impl->checkLossScale();
  } catch (const SessionError &) {
    impl->lossScale.emplace(before);
    throw;
  }
}

} // namespace fcdp
