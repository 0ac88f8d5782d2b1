// SPDX-License-Identifier: Apache-2.0
//
// Applies policies to a session: rates, scales and weights of losses, and
// infinite and NaN numbers.
#include "policy/LostUpdates.h"
#include "session/SessionImpl.h"

namespace fcdp {

GatherOverRanks Session::Impl::gatherOverRanks() {
  return [this](std::span<const double> own, const char *what) {
    return job->gather(own, what);
  };
}

void Session::Impl::weightLoss(StepPlan::Inputs inputs, int64_t number,
                               double total, RankStats &stats) {
  const double weight =
      losses->ofBatch(inputs, "micro-batch", number,
                      [this](size_t i) { return step->input(i); });
  stats.weights.push_back(weight);
  step->setLossWeight(losses->factorOf(weight, total));
}

void Session::Impl::recordWeight(StepPlan::Inputs inputs, int64_t number,
                                 RankStats &stats) {
  const double weight = losses->ofBatch(
      inputs, "batch", number, [this](size_t i) { return step->input(i); });
  stats.weights.push_back(weight);
  step->setLossWeight(weight == 0 ? 0 : 1);
}

void Session::Impl::requireWeight(double total, const std::string &what) {
  if (auto problem = losses->problemOf(total, what))
    endTogether(*problem);
}

void Session::Impl::endTogether(const SessionError &error) {
  if (saver)
    saver->wait();
  job->finish();
  phase = Phase::Failed;
  throw error;
}

StepNeeds Session::agreeOnNeeds(const StepNeeds &own) {
  StepNeeds needs;
  impl->attemptTogether(SessionErrorCode::Failed, [&] {
    needs = fcdp::agreeOnNeeds(impl->plan, own, impl->gatherOverRanks());
  });
  return needs;
}

void Session::requireFinite(const StepStats &stats) {
  auto error = impl->nonfinite.errorOf(stats, impl->scaledLoss.scale());
  impl->attempt(SessionErrorCode::Failed, [&] {
    if (error)
      impl->endTogether(*error);
  });
}

std::optional<LossScale> Session::lossScale() const {
  return impl->scaledLoss.scale();
}

void Session::setLossScale(const LossScaling &scaling, int64_t growthTracker) {
  impl->requireLoading("setting the loss scale");
  impl->scaledLoss.set(scaling, growthTracker);
}

std::string Session::describeLostUpdates() {
  std::string line;
  if (!mayLoseUpdates(impl->plan))
    return line;
  impl->attemptTogether(SessionErrorCode::Failed, [&] {
    const double rate = impl->rates.base();
    const UpdateCount own =
        countLostUpdates(impl->plan, place(), rate,
                         [&](size_t bucket) -> std::span<const std::byte> {
                           return impl->step->shard(bucket);
                         });
    line = fcdp::describeLostUpdates(sumOverRanks(own, impl->gatherOverRanks()),
                                     rate);
  });
  return line;
}

void Session::setLearningRate(double base) {
  impl->requireOpen();
  impl->rates.setBase(base);
}

void Session::setSchedule(const Schedule &schedule) {
  impl->requireOpen();
  impl->rates.setSchedule(schedule);
}

std::string Session::schedule() const { return impl->rates.schedule(); }

double Session::learningRate() const { return impl->nextLearningRate(); }

} // namespace fcdp
