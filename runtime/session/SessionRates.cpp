// SPDX-License-Identifier: Apache-2.0
//
// Manages the learning rate of a session's steps.
#include "files/Json.h"
#include "policy/LostUpdates.h"
#include "session/SessionImpl.h"

#include <cmath>

namespace fcdp {

namespace {

/// Members of a checkpoint's job settings.
constexpr const char *kRateKey = "learning_rate";
constexpr const char *kScheduleKey = "schedule";

bool isRate(double rate) { return std::isfinite(rate) && rate >= 0; }

} // namespace

nlohmann::json Session::Impl::withRates(nlohmann::json job) const {
  job.erase(kRateKey);
  job.erase(kScheduleKey);
  if (baseRate)
    job[kRateKey] = *baseRate;
  if (schedule)
    job[kScheduleKey] = schedule->text();
  return job;
}

void Session::Impl::takeRates(const nlohmann::json &job,
                              const std::string &origin) {
  JsonNode node(job, origin);
  if (node.has(kRateKey)) {
    double rate = node.at(kRateKey).number();
    if (!isRate(rate))
      node.at(kRateKey).expected("a finite rate of at least 0");
    baseRate = rate;
  }
  if (node.has(kScheduleKey)) {
    JsonNode stored = node.at(kScheduleKey);
    schedule = Schedule::parse(stored.text(), stored.path());
  }
}

double Session::Impl::baseLearningRate() const {
  return baseRate.value_or(plan.learningRate());
}

std::string Session::describeLostUpdates() {
  std::string line;
  if (!mayLoseUpdates(impl->plan))
    return line;
  impl->attemptTogether(SessionErrorCode::Failed, [&] {
    const double rate = impl->baseLearningRate();
    const UpdateCount own =
        countLostUpdates(impl->plan, place(), rate,
                         [&](size_t bucket) -> std::span<const std::byte> {
                           return impl->step->shard(bucket);
                         });
    const double numbers[] = {own.elements, own.lost};
    std::vector<double> all =
        impl->job->gather(numbers, "count of updates that are lost");
    UpdateCount sum;
    for (size_t i = 0; i < all.size(); i += 2) {
      sum.elements += all[i];
      sum.lost += all[i + 1];
    }
    line = fcdp::describeLostUpdates(sum, rate);
  });
  return line;
}

double Session::Impl::nextLearningRate() const {
  double base = baseLearningRate();
  return schedule ? base * schedule->factor(numSteps) : base;
}

void Session::setLearningRate(double base) {
  impl->requireOpen();
  if (!isRate(base))
    throw SessionError(SessionErrorCode::Misuse,
                       "expected a finite learning rate of at least 0, got " +
                           std::to_string(base));
  impl->baseRate = base;
}

void Session::setSchedule(const Schedule &schedule) {
  impl->requireOpen();
  impl->schedule = schedule;
}

std::string Session::schedule() const {
  return impl->schedule ? impl->schedule->text() : "constant";
}

double Session::learningRate() const { return impl->nextLearningRate(); }

} // namespace fcdp
