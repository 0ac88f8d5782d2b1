// SPDX-License-Identifier: Apache-2.0
#include "session/StepStats.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

namespace fcdp {

namespace {

double RankStats::*const kNumbers[] = {
    &RankStats::learningRate,      &RankStats::seconds,
    &RankStats::interBytes,        &RankStats::intraBytes,
    &RankStats::h2dBytes,          &RankStats::d2hBytes,
    &RankStats::controlBytes,      &RankStats::devicePeakBytes,
    &RankStats::systemAllocations, &RankStats::skipped,
    &RankStats::gradientNorm,      &RankStats::exposedSeconds,
    &RankStats::lossScale,         &RankStats::nonfiniteGradient,
    &RankStats::request,           &RankStats::nextVariant};

double greatestOverNodes(const Mesh &mesh, const std::vector<RankStats> &ranks,
                         double RankStats::*number) {
  double greatest = 0;
  for (uint32_t node = 0; node < mesh.nodes; ++node) {
    double sum = 0;
    for (uint32_t local = 0; local < mesh.locals; ++local)
      sum += ranks[worldRank(mesh, {node, local})].*number;
    greatest = std::max(greatest, sum);
  }
  return greatest;
}

double meanLoss(const Mesh &mesh, const std::vector<RankStats> &ranks) {
  double sum = 0;
  for (uint32_t node = 0; node < mesh.nodes; ++node) {
    double nodeSum = 0;
    for (uint32_t local = 0; local < mesh.locals; ++local) {
      double rankSum = 0;
      for (double loss : ranks[worldRank(mesh, {node, local})].losses)
        rankSum += loss;
      nodeSum += rankSum;
    }
    sum += nodeSum;
  }
  return sum / (double(mesh.size()) * double(ranks[0].losses.size()));
}

double common(double RankStats::*number, const char *what,
              const std::vector<RankStats> &ranks) {
  double first = ranks[0].*number;
  for (size_t i = 1; i < ranks.size(); ++i)
    if (ranks[i].*number != first) {
      std::ostringstream text;
      text << "expected one " << what << " on all ranks, got " << first
           << " on rank 0 and " << ranks[i].*number << " on rank " << i;
      throw std::runtime_error(text.str());
    }
  return first;
}

/// Not a comparison for equality: an unknown number is negative, and a norm may
/// be NaN.
std::optional<double> known(double number) {
  return number < 0 ? std::nullopt : std::optional(number);
}

/// Losses come first: their gradients are not finite, either.
std::optional<Nonfinite> findNonfinite(const std::vector<RankStats> &ranks) {
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<double> &losses = ranks[rank].losses;
    for (size_t k = 0; k < losses.size(); ++k)
      if (!std::isfinite(losses[k]))
        return Nonfinite{rank, k, losses[k]};
  }
  for (uint32_t rank = 0; rank < ranks.size(); ++rank)
    if (double bucket = ranks[rank].nonfiniteGradient;
        bucket != RankStats::kNoBucket)
      return Nonfinite{rank, std::nullopt, 0, int64_t(bucket)};
  return std::nullopt;
}

} // namespace

std::vector<double> RankStats::pack() const {
  std::vector<double> values = losses;
  for (double RankStats::*number : kNumbers)
    values.push_back(this->*number);
  return values;
}

RankStats RankStats::unpack(std::span<const double> values) {
  size_t numLosses = values.size() - std::size(kNumbers);
  RankStats stats;
  stats.losses.assign(values.begin(), values.begin() + numLosses);
  for (size_t i = 0; i < std::size(kNumbers); ++i)
    stats.*kNumbers[i] = values[numLosses + i];
  return stats;
}

StepStats combine(const Mesh &mesh, const std::vector<RankStats> &ranks) {
  StepStats stats;
  stats.loss = meanLoss(mesh, ranks);
  stats.learningRate = common(&RankStats::learningRate, "learning rate", ranks);
  stats.lossScale = known(common(&RankStats::lossScale, "loss scale", ranks));
  // The same on all ranks.
  stats.gradientNorm = known(ranks[0].gradientNorm);
  stats.exposedSeconds = known(ranks[0].exposedSeconds);
  stats.skipped = ranks[0].skipped != 0;
  stats.nonfinite = findNonfinite(ranks);
  auto perNode = [&](double RankStats::*number) {
    return greatestOverNodes(mesh, ranks, number);
  };
  stats.interBytes = perNode(&RankStats::interBytes);
  stats.intraBytes = perNode(&RankStats::intraBytes);
  stats.h2dBytes = perNode(&RankStats::h2dBytes);
  stats.d2hBytes = perNode(&RankStats::d2hBytes);
  stats.controlBytes = perNode(&RankStats::controlBytes);
  for (const RankStats &rank : ranks) {
    stats.seconds = std::max(stats.seconds, rank.seconds);
    stats.secondsOfRanks.push_back(rank.seconds);
    if (stats.exposedSeconds)
      stats.exposedSeconds =
          std::max(*stats.exposedSeconds, rank.exposedSeconds);
    stats.devicePeakBytes =
        std::max(stats.devicePeakBytes, rank.devicePeakBytes);
    stats.systemAllocations += rank.systemAllocations;
    stats.request = std::max(stats.request, rank.request);
    stats.nextVariant = std::max(stats.nextVariant, rank.nextVariant);
  }
  return stats;
}

} // namespace fcdp
