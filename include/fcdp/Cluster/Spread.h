// SPDX-License-Identifier: Apache-2.0
//
// The uncertainty of the inputs of the cost model. This code does not depend on
// the IR.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <array>

namespace fcdp {

/// The inputs of the cost model whose errors are independent of each other.
enum class CostInput {
  /// The rates of products, of fused attention and of device memory.
  products,
  attention,
  memory,
  /// The gap between two operators, and the host's times to issue work.
  launch,
  issue,
  /// The bandwidths and latencies of links between and within nodes.
  inter,
  interLatency,
  intra,
  intraLatency,
  /// Copies between host and device.
  copies,
  /// The coding of values that are sent between nodes.
  messages,
  /// The times of a profile.
  profile
};
inline constexpr unsigned kNumCostInputs =
    static_cast<unsigned>(CostInput::profile) + 1;
/// Returns the key in descriptions: "inter_latency".
llvm::StringRef stringifyCostInput(CostInput input);

/// Standard deviations of natural logarithms. A value of 0.1 means that two of
/// three true values are within about 10 % of the given one.
struct Spread {
  /// Indexed by CostInput. The defaults are for figures from data sheets and
  /// from published microbenchmarks of other machines.
  std::array<double, kNumCostInputs> inputs{
      /*products=*/0.07,    /*attention=*/0.12, /*memory=*/0.07,
      /*launch=*/0.3,       /*issue=*/0.2,      /*inter=*/0.12,
      /*interLatency=*/0.3, /*intra=*/0.1,
      /*intraLatency=*/0.3, /*copies=*/0.1,     /*messages=*/0.2,
      /*profile=*/0.03};
  /// The error of a step's time that remains if all inputs are exact. With this
  /// value, 80 % of the validation's runs are in their ranges, with each source
  /// of runs counted once (benchmarks/simulator/validate.py also prints it with
  /// each source left out).
  double model = 0.11;
  /// The same error for the ratio of two strategies' times. It is smaller,
  /// because most effects that the model leaves out slow both down.
  double strategies = 0.02;

  double get(CostInput input) const {
    return inputs[static_cast<unsigned>(input)];
  }
};
/// The greatest spread that a description may have: about a factor of 7.
inline constexpr double kMaxSpread = 2;

} // namespace fcdp
