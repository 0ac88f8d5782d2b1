// SPDX-License-Identifier: Apache-2.0
#include "probe/ProbeSustained.h"

#include "probe/RandomMatrix.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <algorithm>
#include <cmath>
#include <numeric>

namespace fcdp::probe {

namespace {

/// The duration of the load. Power limits act within milliseconds, a cooler
/// within some seconds.
constexpr double kLoadSeconds = 5, kRoundSeconds = 0.5;
/// The number of rounds at the end whose times count, and a limit on all rounds
/// in case a clock is wrong.
constexpr size_t kLastRounds = 3, kMostRounds = 40;
constexpr double kMostKernels = 20000;
/// The least number of devices. A standard deviation of three is not
/// significant.
constexpr size_t kLeastDevices = 4;

} // namespace

static double meanOf(const std::vector<double> &values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         double(values.size());
}

std::optional<double> findVariation(const std::vector<double> &seconds) {
  if (seconds.size() < kLeastDevices)
    return std::nullopt;
  double mean = meanOf(seconds), squares = 0;
  for (double value : seconds)
    squares += (value - mean) * (value - mean);
  return std::sqrt(squares / double(seconds.size() - 1)) / mean;
}

SustainedFigures measureSustained(c10::Device device,
                                  const ProbedProduct &product, double gap,
                                  const RankTimer &time) {
  at::NoGradGuard noGrad;
  at::Tensor left =
                 makeRandomMatrix(device, product.type, product.m, product.k),
             right =
                 makeRandomMatrix(device, product.type, product.k, product.n),
             out = at::empty({product.m, product.n}, left.options());
  int count =
      int(std::clamp(kRoundSeconds / product.seconds(), 1.0, kMostKernels));
  // The seconds of each round, by rank.
  std::vector<std::vector<double>> rounds;
  for (double loaded = 0;
       loaded < kLoadSeconds && rounds.size() < kMostRounds;) {
    rounds.push_back(time([&] {
      for (int i = 0; i < count; ++i)
        at::mm_out(out, left, right);
    }));
    loaded += meanOf(rounds.back());
  }
  rounds.erase(rounds.begin(),
               rounds.end() - std::min(rounds.size(), kLastRounds));
  std::vector<double> ofRanks(rounds.front().size());
  for (const auto &round : rounds)
    for (size_t rank = 0; rank < round.size(); ++rank)
      ofRanks[rank] += round[rank] / double(rounds.size() * count);
  return {std::min(product.seconds() / withoutGap(meanOf(ofRanks), gap), 1.0),
          findVariation(ofRanks)};
}

} // namespace fcdp::probe
