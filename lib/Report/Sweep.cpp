// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/Sweep.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace fcdp;

static constexpr llvm::StringLiteral kKeys[kNumSweepKeys] = {
    "strategies",    "options",   "nodes", "ranks",
    "micro-batches", "bandwidth", "memory"};
static constexpr int64_t kDefaultCount = 10, kMaxCount = 10000;

llvm::StringRef fcdp::stringifySweepKey(SweepKey key) {
  return kKeys[static_cast<unsigned>(key)];
}

bool fcdp::hasNames(SweepKey key) {
  return key == SweepKey::strategies || key == SweepKey::options;
}

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

static bool isWhole(SweepKey key) {
  return key != SweepKey::bandwidth && key != SweepKey::memory;
}

static llvm::Expected<double> parseValue(SweepKey key, llvm::StringRef text) {
  double value = 0;
  if (text.getAsDouble(value) || !std::isfinite(value) || value <= 0)
    return llvm::createStringError(
        llvm::formatv("expected a positive number, got '{0}'", text));
  // The number of ranks is limited to 2^31.
  if (isWhole(key) && (value != std::floor(value) || value > 0x1p31))
    return llvm::createStringError(
        llvm::formatv("expected a positive whole number, got '{0}'", text));
  return value;
}

static llvm::Error fillRange(SweepAxis &axis,
                             llvm::ArrayRef<llvm::StringRef> parts) {
  llvm::Expected<double> low = parseValue(axis.key, parts[0]);
  if (!low)
    return low.takeError();
  llvm::Expected<double> high = parseValue(axis.key, parts[1]);
  if (!high)
    return high.takeError();
  int64_t count = kDefaultCount;
  if (parts.size() == 3 &&
      (parts[2].getAsInteger(10, count) || count < 2 || count > kMaxCount))
    return llvm::createStringError(
        llvm::formatv("expected a number of points from 2 to {0}, got '{1}'",
                      kMaxCount, parts[2]));
  if (*low > *high)
    return llvm::createStringError(llvm::formatv(
        "expected the lower number first, got '{0}:{1}'", parts[0], parts[1]));
  for (int64_t i = 0; i < count; ++i) {
    double value =
        *low * std::pow(*high / *low, static_cast<double>(i) / (count - 1));
    axis.values.push_back(isWhole(axis.key) ? std::round(value) : value);
  }
  axis.values.back() = *high;
  return llvm::Error::success();
}

static llvm::Error fillList(SweepAxis &axis, llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',');
  for (llvm::StringRef part : parts) {
    llvm::Expected<double> value = parseValue(axis.key, part);
    if (!value)
      return value.takeError();
    axis.values.push_back(*value);
  }
  llvm::sort(axis.values);
  return llvm::Error::success();
}

llvm::Expected<SweepAxis> fcdp::parseSweepAxis(llvm::StringRef text) {
  auto [name, rest] = text.split('=');
  const auto *key = llvm::find(kKeys, name);
  if (key == std::end(kKeys) || rest.empty())
    return llvm::createStringError(llvm::formatv(
        "expected KEY=LO:HI[:COUNT] or KEY=VALUE,VALUE... with a KEY of {0}; "
        "got '{1}'",
        llvm::join(llvm::ArrayRef(kKeys), ", "), text));
  SweepAxis axis{static_cast<SweepKey>(key - kKeys), {}, {}};
  if (hasNames(axis.key)) {
    llvm::SmallVector<llvm::StringRef> names;
    rest.split(names, ',');
    axis.names.assign(names.begin(), names.end());
    return axis;
  }
  llvm::SmallVector<llvm::StringRef> parts;
  rest.split(parts, ':');
  bool isRange = parts.size() == 2 || parts.size() == 3;
  if (llvm::Error error =
          isRange ? fillRange(axis, parts) : fillList(axis, rest))
    return llvm::createStringError(
        llvm::formatv("{0}: {1}", name, toString(std::move(error))));
  axis.values.erase(llvm::unique(axis.values), axis.values.end());
  return axis;
}

//===----------------------------------------------------------------------===//
// Comparisons
//===----------------------------------------------------------------------===//

bool SweepPoint::equalsBut(const SweepPoint &other,
                           std::optional<SweepKey> key) const {
  return (!key || input == other.input) &&
         (key == SweepKey::strategies || strategy == other.strategy) &&
         (key == SweepKey::options || options == other.options) &&
         (key == SweepKey::nodes || nodes == other.nodes) &&
         (key == SweepKey::ranks || ranks == other.ranks) &&
         (key == SweepKey::microBatches ||
          microBatches == other.microBatches) &&
         (key == SweepKey::bandwidth || bandwidth == other.bandwidth) &&
         (key == SweepKey::memory || memory == other.memory);
}

static bool dominates(const SweepResult &a, const SweepResult &b) {
  auto getCosts = [](const SweepResult &result) {
    return std::array<double, 4>{-result.tokensPerSecond,
                                 static_cast<double>(result.device),
                                 result.point.bandwidth,
                                 static_cast<double>(result.point.nodes) *
                                     static_cast<double>(result.point.ranks)};
  };
  std::array<double, 4> costsA = getCosts(a), costsB = getCosts(b);
  return costsA != costsB &&
         llvm::all_of(llvm::zip(costsA, costsB), [](const auto &pair) {
           return std::get<0>(pair) <= std::get<1>(pair);
         });
}

static void markResult(SweepResult &result,
                       llvm::ArrayRef<SweepResult> results) {
  auto isAny = [&](auto &&holds) {
    return llvm::any_of(results, [&](const SweepResult &other) {
      return other.fits && holds(other);
    });
  };
  // Token rates of different inputs are not comparable.
  result.isOnFrontier = !isAny([&](const SweepResult &other) {
    return other.point.input == result.point.input && dominates(other, result);
  });
  result.isBest = !isAny([&](const SweepResult &other) {
    return other.point.equalsBut(result.point, SweepKey::strategies) &&
           other.seconds < result.seconds;
  });
}

/// Requires isBest of all results.
static void findWhetherAsFast(SweepResult &result,
                              llvm::ArrayRef<SweepResult> results) {
  result.isAsFast =
      !result.isBest && llvm::any_of(results, [&](const SweepResult &best) {
        return best.isBest &&
               best.point.equalsBut(result.point, SweepKey::strategies) &&
               !compareTimes(result.scenarios, best.scenarios, result.spread)
                    .isCertain();
      });
}

std::vector<LargestInput> fcdp::findLargest(const Sweep &sweep) {
  std::vector<LargestInput> found;
  for (const SweepResult &first : sweep.results) {
    if (first.point.input != 0)
      continue;
    LargestInput largest{first.point, {}, {}, {}, {}};
    auto replace = [&](std::optional<size_t> &index, size_t i,
                       auto SweepResult::*size) {
      if (!index || sweep.results[i].*size > sweep.results[*index].*size)
        index = i;
    };
    for (auto [i, result] : llvm::enumerate(sweep.results)) {
      if (!result.fits || !result.point.equalsBut(first.point, std::nullopt))
        continue;
      replace(largest.batch, i, &SweepResult::tokens);
      replace(largest.sequence, i, &SweepResult::sequence);
      replace(largest.model, i, &SweepResult::elements);
      replace(largest.fastest, i, &SweepResult::tokensPerSecond);
    }
    found.push_back(largest);
  }
  return found;
}

void fcdp::compareResults(Sweep &sweep) {
  for (SweepResult &result : sweep.results)
    if (result.fits)
      markResult(result, sweep.results);
  for (SweepResult &result : sweep.results)
    if (result.fits)
      findWhetherAsFast(result, sweep.results);
  if (sweep.inputs.size() > 1)
    sweep.largest = findLargest(sweep);
}

//===----------------------------------------------------------------------===//
// Bandwidth that is enough
//===----------------------------------------------------------------------===//

std::optional<double>
fcdp::findHiddenFrom(llvm::ArrayRef<SweepResult> results) {
  std::optional<double> from;
  for (const SweepResult &result : llvm::reverse(results)) {
    if (!result.failure.empty() ||
        result.exposedInter >= kHidden * result.seconds)
      break;
    from = result.point.bandwidth;
  }
  return from;
}

std::optional<double>
fcdp::findHiddenFrom(double low, double high,
                     llvm::function_ref<double(double)> exposedShare) {
  if (exposedShare(high) >= kHidden)
    return std::nullopt;
  if (exposedShare(low) < kHidden)
    return low;
  while (high > 1.01 * low) {
    double middle = std::sqrt(low * high);
    (exposedShare(middle) < kHidden ? high : low) = middle;
  }
  return high;
}
