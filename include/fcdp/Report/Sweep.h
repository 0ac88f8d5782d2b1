// SPDX-License-Identifier: Apache-2.0
//
// One step at many points of a parameter grid, and comparisons of the results.
// This code does not depend on the IR.
#pragma once

#include "fcdp/Simulation/Uncertainty.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace fcdp {

/// The parameter of an axis. `strategies` and `options` have names instead of
/// numbers.
enum class SweepKey {
  strategies,
  /// Settings of other options, which all inputs get.
  options,
  nodes,
  ranks,
  microBatches,
  bandwidth,
  memory
};
inline constexpr unsigned kNumSweepKeys =
    static_cast<unsigned>(SweepKey::memory) + 1;
/// Returns the name on the command line, e.g. "micro-batches".
llvm::StringRef stringifySweepKey(SweepKey key);

struct SweepAxis {
  SweepKey key;
  /// Ascending values: bandwidth between nodes in bytes per second, device
  /// memory in bytes, all others whole numbers.
  std::vector<double> values;
  std::vector<std::string> names;
};
/// Returns whether an axis has names.
bool hasNames(SweepKey key);
/// The name of `options` without settings. Others are NAME=VALUE, several of
/// which are joined by '+'.
inline constexpr llvm::StringLiteral kNoOptions = "none";

/// Parses `KEY=LO:HI[:COUNT]` or `KEY=VALUE,VALUE...`. The first form gives
/// COUNT (default 10) values in geometric progression from LO to HI. Counts are
/// rounded, and duplicates are dropped. The error says what is expected.
llvm::Expected<SweepAxis> parseSweepAxis(llvm::StringRef text);

/// The parameters of one run of a step.
struct SweepPoint {
  /// Index of the input.
  size_t input = 0;
  std::string strategy;
  std::string options = kNoOptions.str();
  int64_t nodes = 1, ranks = 1, microBatches = 1;
  /// Bandwidth of the link between nodes (bytes per second), and memory of a
  /// device (bytes).
  double bandwidth = 0, memory = 0;

  /// Returns whether the points differ at most in `key` or, if that is none, at
  /// most in their input.
  bool equalsBut(const SweepPoint &other, std::optional<SweepKey> key) const;
};

/// The result at one point.
struct SweepResult {
  SweepPoint point;
  /// The reason why there is no plan. If it is not empty, the other results are
  /// not set.
  std::string failure;
  double seconds = 0, tokensPerSecond = 0, mfu = 0;
  /// The range of `seconds`, and the times and the spread that it is computed
  /// from.
  Range range;
  ScenarioTimes scenarios;
  Spread spread;
  /// Seconds that compute waits for collectives between nodes.
  double exposedInter = 0;
  /// Tokens of one rank per micro-batch, and of each of its sequences.
  int64_t tokens = 0, sequence = 0;
  /// Elements of the model's parameters.
  int64_t elements = 0;
  /// Bytes of device and host memory that the plan needs.
  int64_t device = 0, host = 0;
  bool fits = false;

  /// Whether the result fits and is Pareto-optimal among the results that fit,
  /// in tokens per second, device bytes, bandwidth and number of ranks.
  bool isOnFrontier = false;
  /// Whether the result fits and has the fastest strategy that fits at its
  /// point.
  bool isBest = false;
  /// Whether the result fits and its time cannot be distinguished from that of
  /// the fastest.
  bool isAsFast = false;
};

/// The bandwidth from which on the exposed time of collectives between nodes is
/// below kHidden of the step. All other parameters are as in `point`.
struct HiddenFrom {
  SweepPoint point;
  /// Bytes per second; none if no bandwidth in the range suffices.
  std::optional<double> bandwidth;
  /// Whether each bandwidth has a plan of its own, so that only the swept
  /// bandwidths were tried.
  bool isOfPoints = false;
};
inline constexpr double kHidden = 0.01;

/// The largest of several inputs that fits, with all other parameters as in
/// `point`.
struct LargestInput {
  SweepPoint point;
  /// Indices of the results with the most tokens per micro-batch, with the
  /// longest sequences, with the most parameters, and with the most tokens per
  /// second. None if nothing fits.
  std::optional<size_t> batch, sequence, model, fastest;
};

struct Sweep {
  std::vector<std::string> inputs;
  std::vector<SweepAxis> axes;
  std::vector<SweepResult> results;
  std::vector<HiddenFrom> hidden;
  /// Set only if there are several inputs.
  std::vector<LargestInput> largest;
};

/// Sets isOnFrontier, isBest and isAsFast, and finds the largest inputs if
/// there are several.
void compareResults(Sweep &sweep);

/// Returns the largest inputs, by all other parameters.
std::vector<LargestInput> findLargest(const Sweep &sweep);

/// Returns the least bandwidth from which on collectives between nodes are
/// hidden in all `results`, or none. The results differ only in bandwidth, in
/// ascending order.
std::optional<double> findHiddenFrom(llvm::ArrayRef<SweepResult> results);

/// Does the same for a plan that does not depend on the bandwidth: bisects
/// between two bandwidths to within 1 %. `exposedShare` gives the exposed share
/// of a step at a bandwidth and must not increase with it.
std::optional<double>
findHiddenFrom(double low, double high,
               llvm::function_ref<double(double)> exposedShare);

} // namespace fcdp
