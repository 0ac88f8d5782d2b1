// SPDX-License-Identifier: Apache-2.0
#include "policy/ScaledLoss.h"

#include "core/SessionError.h"
#include "files/Json.h"

namespace fcdp {

namespace {

/// Members of a checkpoint's job settings.
constexpr const char *kScalingKey = "loss_scaling";
constexpr const char *kScaleKey = "loss_scale";
constexpr const char *kTrackerKey = "growth_tracker";

[[noreturn]] void misuse(const std::string &message) {
  throw SessionError(SessionErrorCode::Misuse, message);
}

constexpr const char *kNotScaled =
    "expected a step that is compiled with --loss-scale=on, as a loss scale is "
    "given";

} // namespace

void ScaledLoss::start() {
  if (!isScaled && given)
    misuse(kNotScaled);
  if (!isScaled)
    return;
  current.emplace(given.value_or(LossScaling()));
  check();
}

void ScaledLoss::check() const {
  if (onNonfinite == OnNonfinite::Continue && !current->scaling().isFixed())
    misuse("a loss scale that is not fixed skips steps whose gradients are "
           "infinite or NaN; expected such steps to stop or to be skipped, or "
           "a fixed loss scale");
}

void ScaledLoss::set(const LossScaling &scaling, int64_t growthTracker) {
  if (!current)
    misuse(kNotScaled);
  if (growthTracker < 0)
    misuse("expected a growth tracker of at least 0, got " +
           std::to_string(growthTracker));
  LossScale before = *current;
  current.emplace(scaling);
  current->restore(current->value(), growthTracker);
  try {
    check();
  } catch (const SessionError &) {
    current.emplace(before);
    throw;
  }
}

void ScaledLoss::update(bool isSkipped) {
  if (current)
    current->update(isSkipped);
}

nlohmann::json ScaledLoss::removeFrom(nlohmann::json job) {
  for (const char *key : {kScalingKey, kScaleKey, kTrackerKey})
    job.erase(key);
  return job;
}

nlohmann::json ScaledLoss::addTo(nlohmann::json job) const {
  job = removeFrom(std::move(job));
  if (!current)
    return job;
  if (!current->scaling().text().empty())
    job[kScalingKey] = current->scaling().text();
  job[kScaleKey] = current->value();
  job[kTrackerKey] = current->growthTracker();
  return job;
}

void ScaledLoss::takeFrom(const nlohmann::json &job,
                          const std::string &origin) {
  if (!current)
    return;
  JsonNode node(job, origin);
  if (!given && node.has(kScalingKey)) {
    JsonNode stored = node.at(kScalingKey);
    current.emplace(LossScaling::parse(stored.text(), stored.path()));
    check();
  }
  if (current->scaling().isFixed() || !node.has(kScaleKey))
    return;
  double scale = node.at(kScaleKey).number();
  if (!LossScale::isValid(scale))
    node.at(kScaleKey).expected("a scale from 2^-24 to 3.4e38");
  current->restore(float(scale), node.at(kTrackerKey).integer(0));
}

} // namespace fcdp
