// SPDX-License-Identifier: Apache-2.0
//
// Computes the weights of losses, which are sums of an input of each
// micro-batch.
#pragma once

#include "plan/StepPlan.h"

#include <cstddef>
#include <span>
#include <string>

namespace fcdp {

/// Returns the sum of the elements of `data`, which are of `input`. Throws
/// SessionError(InputMismatch), with `batch` and `rank` in its message, if an
/// element is negative, infinite or NaN.
double sumWeights(const plan::InputT &input, std::span<const std::byte> data,
                  const std::string &batch, int64_t number, uint32_t rank);

/// Returns the factor of a loss of weight `weight`, w_i n / sum(w) for n losses
/// whose weights have the sum `total`: the mean of the losses times their
/// factors is their weighted mean. 0 if all weights are 0.
inline double lossFactor(double weight, double total, size_t losses) {
  return total == 0 ? 0 : weight * double(losses) / total;
}

/// Throws std::runtime_error unless `value` may pad `input`. The input that
/// weights losses must be padded with 0.
void checkWeightPadding(const StepPlan &plan, const std::string &input,
                        double value);

} // namespace fcdp
