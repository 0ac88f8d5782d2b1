// SPDX-License-Identifier: Apache-2.0
//
// Measures this rank's rate of computation with libtorch's operators.
#pragma once

#include "core/Backend.h"
#include "probe/DeviceTimer.h"
#include "probe/Steady.h"

#include <functional>

namespace fcdp::probe {

/// Returns the time of `work`, which was done once before. All ranks call it at
/// the same time and get the same time.
using SteadyTimer = std::function<SteadyTime(const Work &work)>;

/// Returns seconds for one floating-point operation of a square matrix product,
/// in operands of `type`, f64, f32, bf16 or f16.
SteadyTime timeOfFlop(DType type, const SteadyTimer &time);

/// Returns the seconds for a byte that is read or written, in a copy that is
/// too large for any cache.
SteadyTime timeOfByte(const SteadyTimer &time);

/// Returns the seconds for a byte that is read or written by those operators of
/// a transformer's block that are no products, in both passes: addition, GELU,
/// softmax and layer norm of 512 rows of 1,024 elements.
SteadyTime timeOfPointwiseByte(const SteadyTimer &time);

/// Returns the seconds of a nearly empty operator.
SteadyTime timeOfLaunch(const SteadyTimer &time);

} // namespace fcdp::probe
