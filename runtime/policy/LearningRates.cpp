// SPDX-License-Identifier: Apache-2.0
#include "policy/LearningRates.h"

#include "core/SessionError.h"
#include "files/Json.h"

#include <cmath>

namespace fcdp {

namespace {

/// Members of a checkpoint's job settings.
constexpr const char *kRateKey = "learning_rate";
constexpr const char *kScheduleKey = "schedule";

bool isRate(double rate) { return std::isfinite(rate) && rate >= 0; }

} // namespace

void LearningRates::setBase(double rate) {
  if (!isRate(rate))
    throw SessionError(SessionErrorCode::Misuse,
                       "expected a finite learning rate of at least 0, got " +
                           std::to_string(rate));
  set = rate;
}

std::string LearningRates::schedule() const {
  return factors ? factors->text() : "constant";
}

double LearningRates::rateAfter(int64_t stepsDone) const {
  return factors ? base() * factors->factor(stepsDone) : base();
}

nlohmann::json LearningRates::addTo(nlohmann::json job) const {
  job.erase(kRateKey);
  job.erase(kScheduleKey);
  if (set)
    job[kRateKey] = *set;
  if (factors)
    job[kScheduleKey] = factors->text();
  return job;
}

void LearningRates::takeFrom(const nlohmann::json &job,
                             const std::string &origin) {
  JsonNode node(job, origin);
  if (node.has(kRateKey)) {
    double rate = node.at(kRateKey).number();
    if (!isRate(rate))
      node.at(kRateKey).expected("a finite rate of at least 0");
    set = rate;
  }
  if (node.has(kScheduleKey)) {
    JsonNode stored = node.at(kScheduleKey);
    factors = Schedule::parse(stored.text(), stored.path());
  }
}

} // namespace fcdp
