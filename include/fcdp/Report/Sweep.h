// SPDX-License-Identifier: Apache-2.0
//
// One step under many circumstances, and what follows from the comparison.
// Knows no IR.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace fcdp {

/// What is swept. Only `strategies` has names in place of numbers.
enum class SweepKey {
  strategies,
  nodes,
  ranks,
  microBatches,
  bandwidth,
  memory
};
inline constexpr unsigned kNumSweepKeys = 6;
/// As the command line has it: "micro-batches".
llvm::StringRef stringifySweepKey(SweepKey key);

struct SweepAxis {
  SweepKey key;
  /// Ascending. Bandwidth between nodes in bytes per second, memory of a device
  /// in bytes, all others whole numbers.
  std::vector<double> values;
  std::vector<std::string> strategies;
};

/// Reads `KEY=LO:HI[:COUNT]`, COUNT (default 10) numbers of equal ratios from
/// LO to HI, rounded where they are whole and then each once; or
/// `KEY=VALUE,VALUE...`. The error says what is expected.
llvm::Expected<SweepAxis> parseSweepAxis(llvm::StringRef text);

/// Under which circumstances a step runs.
struct SweepPoint {
  /// Which of the inputs.
  size_t input = 0;
  std::string strategy;
  int64_t nodes = 1, ranks = 1, microBatches = 1;
  /// Of the link between nodes, and of a device.
  double bandwidth = 0, memory = 0;

  /// Whether nothing but what `key` names differs, or but the input if none.
  bool equalsBut(const SweepPoint &other, std::optional<SweepKey> key) const;
};

/// What happens there.
struct SweepResult {
  SweepPoint point;
  /// Why there is no plan; empty if there is one, and if not then the rest is.
  std::string failure;
  double seconds = 0, tokensPerSecond = 0, mfu = 0;
  /// Seconds that compute waits for collectives between nodes.
  double exposedInter = 0;
  /// Of one rank in a micro-batch.
  int64_t tokens = 0;
  /// Elements of the model's parameters.
  int64_t elements = 0;
  /// Bytes of a device and of a host that the plan needs.
  int64_t device = 0, host = 0;
  bool fits = false;

  /// That fits, and nothing that fits is better in one of tokens per second,
  /// device bytes, bandwidth and ranks without being worse in another.
  bool isOnFrontier = false;
  /// That fits, and is the fastest that does of all strategies there.
  bool isBest = false;
};

/// Where collectives between nodes take less than kHidden of the step, with
/// everything but the bandwidth as at `point`.
struct HiddenFrom {
  SweepPoint point;
  /// Bytes per second; none if there is none in the range.
  std::optional<double> bandwidth;
  /// Whether the step was planned for each bandwidth anew, so that only those
  /// that were swept are known.
  bool isOfPoints = false;
};
inline constexpr double kHidden = 0.01;

/// What fits of several inputs, with everything else as at `point`.
struct LargestInput {
  SweepPoint point;
  /// Results' indices: most tokens in a micro-batch, and most parameters; none
  /// if nothing fits.
  std::optional<size_t> batch, model;
};

struct Sweep {
  std::vector<std::string> inputs;
  std::vector<SweepAxis> axes;
  std::vector<SweepResult> results;
  std::vector<HiddenFrom> hidden;
  /// Only of several inputs.
  std::vector<LargestInput> largest;
};

/// Sets isOnFrontier and isBest, and finds the largest inputs.
void compareResults(Sweep &sweep);

/// The least bandwidth of `results`, all of one plan's circumstances and in
/// ascending order of it, from which on all have collectives between nodes
/// hidden.
std::optional<double> findHiddenFrom(llvm::ArrayRef<SweepResult> results);

/// The same of a plan that is one for all bandwidths, within 1 %, between two
/// bandwidths; `exposedShare` gives the share of a step that is exposed, which
/// is taken to fall as bandwidth rises.
std::optional<double>
findHiddenFrom(double low, double high,
               llvm::function_ref<double(double)> exposedShare);

} // namespace fcdp
