// SPDX-License-Identifier: Apache-2.0
//
// Measures this rank's rate of computation with libtorch's operators.
#pragma once

#include "core/Backend.h"
#include "probe/DeviceTimer.h"
#include "probe/Steady.h"

#include <functional>

namespace fcdp::run {

/// Returns the time of `work`, which was done once before. All ranks call it at
/// the same time and get the same time.
using SteadyTimer = std::function<SteadyTime(const Work &work)>;

/// Returns seconds for one floating-point operation of a square matrix product,
/// in operands of `type`, f64, f32, bf16 or f16.
SteadyTime timeOfFlop(DType type, const SteadyTimer &time);

/// Returns seconds for a byte that is read or written, of a copy that no cache
/// holds.
SteadyTime timeOfByte(const SteadyTimer &time);

/// Returns seconds of an operator that has next to nothing to do.
SteadyTime timeOfLaunch(const SteadyTimer &time);

/// Returns seconds for a byte of values in bf16 that is coded as a difference
/// and decoded, one half for each.
SteadyTime timeOfCodedByte(const SteadyTimer &time);

} // namespace fcdp::run
