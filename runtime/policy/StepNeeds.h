// SPDX-License-Identifier: Apache-2.0
//
// The requirements of a step's inputs, on which ranks agree before the step.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace fcdp {

/// The requirements of a step's inputs, on one rank or on several together.
struct StepNeeds {
  /// The least variant that the inputs fit into.
  uint32_t variant = 0;
  /// The sum of the weights of the micro-batches' losses; 0 if the step does
  /// not weight them.
  double weight = 0;

  /// Adds the requirements of other ranks.
  void add(const StepNeeds &others) {
    variant = std::max(variant, others.variant);
    weight += others.weight;
  }

  static constexpr size_t kNumNumbers = 2;
  /// Converts them to numbers that ranks exchange; `unpack` is the inverse.
  std::array<double, kNumNumbers> pack() const {
    return {double(variant), weight};
  }
  static StepNeeds unpack(std::span<const double, kNumNumbers> numbers) {
    return {uint32_t(numbers[0]), numbers[1]};
  }
};

} // namespace fcdp
