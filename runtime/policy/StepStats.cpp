// SPDX-License-Identifier: Apache-2.0
#include "policy/StepStats.h"

#include "policy/LossWeight.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>
#include <stdexcept>

namespace fcdp {

namespace {

double RankStats::*const kNumbers[] = {&RankStats::learningRate,
                                       &RankStats::seconds,
                                       &RankStats::controlBytes,
                                       &RankStats::devicePeakBytes,
                                       &RankStats::systemAllocations,
                                       &RankStats::skipped,
                                       &RankStats::gradientNorm,
                                       &RankStats::exposedSeconds,
                                       &RankStats::lossScale,
                                       &RankStats::nonfiniteGradient,
                                       &RankStats::request};

constexpr size_t kNumNumbers =
    std::size(kNumbers) + kLinks.size() + StepNeeds::kNumNumbers;

void forEachNumber(auto &stats, auto handle) {
  for (double RankStats::*number : kNumbers)
    handle(stats.*number);
  for (LinkId link : kLinks)
    handle(stats.linkBytes[link]);
}

double greatestOverNodes(const Mesh &mesh, const std::vector<RankStats> &ranks,
                         auto getNumber) {
  double greatest = 0;
  for (uint32_t node = 0; node < mesh.nodes; ++node) {
    double sum = 0;
    for (uint32_t local = 0; local < mesh.locals; ++local)
      sum += getNumber(ranks[worldRank(mesh, {node, local})]);
    greatest = std::max(greatest, sum);
  }
  return greatest;
}

/// Returns the sum of the weights of all losses; none if they have none.
std::optional<double> totalWeight(const std::vector<RankStats> &ranks) {
  if (ranks[0].weights.empty())
    return std::nullopt;
  double total = 0;
  for (const RankStats &rank : ranks)
    total += std::accumulate(rank.weights.begin(), rank.weights.end(), 0.0);
  return total;
}

double meanLoss(const Mesh &mesh, const std::vector<RankStats> &ranks,
                std::optional<double> total) {
  const size_t count = mesh.size() * ranks[0].losses.size();
  double sum = 0;
  for (uint32_t node = 0; node < mesh.nodes; ++node) {
    double nodeSum = 0;
    for (uint32_t local = 0; local < mesh.locals; ++local) {
      double rankSum = 0;
      const RankStats &rank = ranks[worldRank(mesh, {node, local})];
      for (size_t k = 0; k < rank.losses.size(); ++k)
        rankSum +=
            total ? rank.losses[k] * lossFactor(rank.weights[k], *total, count)
                  : rank.losses[k];
      nodeSum += rankSum;
    }
    sum += nodeSum;
  }
  return sum / double(count);
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

/// Returns the number if it is known. An unknown number is negative, and a norm
/// may be NaN, so this is not a comparison for equality.
std::optional<double> known(double number) {
  return number < 0 ? std::nullopt : std::optional(number);
}

/// Finds nonfinite losses first, because their gradients are not finite either.
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
  values.insert(values.end(), weights.begin(), weights.end());
  values.push_back(double(weights.size()));
  forEachNumber(*this, [&](double number) { values.push_back(number); });
  const auto needs = next.pack();
  values.insert(values.end(), needs.begin(), needs.end());
  return values;
}

RankStats RankStats::unpack(std::span<const double> values) {
  std::span<const double> numbers = values.last(kNumNumbers);
  const size_t lists = values.size() - numbers.size() - 1;
  const auto numWeights = size_t(values[lists]);
  RankStats stats;
  stats.losses.assign(values.begin(), values.begin() + lists - numWeights);
  stats.weights.assign(values.begin() + lists - numWeights,
                       values.begin() + lists);
  auto value = numbers.begin();
  forEachNumber(stats, [&](double &number) { number = *value++; });
  stats.next = StepNeeds::unpack(numbers.last<StepNeeds::kNumNumbers>());
  return stats;
}

StepStats combine(const Mesh &mesh, const std::vector<RankStats> &ranks) {
  StepStats stats;
  stats.weight = totalWeight(ranks);
  stats.loss = meanLoss(mesh, ranks, stats.weight);
  stats.learningRate = common(&RankStats::learningRate, "learning rate", ranks);
  stats.lossScale = known(common(&RankStats::lossScale, "loss scale", ranks));
  // These numbers are equal on all ranks.
  stats.gradientNorm = known(ranks[0].gradientNorm);
  stats.exposedSeconds = known(ranks[0].exposedSeconds);
  stats.skipped = ranks[0].skipped != 0;
  stats.nonfinite = findNonfinite(ranks);
  for (LinkId link : kLinks)
    stats.linkBytes[link] =
        greatestOverNodes(mesh, ranks, [&](const RankStats &rank) {
          return rank.linkBytes[link];
        });
  stats.controlBytes = greatestOverNodes(
      mesh, ranks, [](const RankStats &rank) { return rank.controlBytes; });
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
    stats.next.add(rank.next);
  }
  return stats;
}

} // namespace fcdp
