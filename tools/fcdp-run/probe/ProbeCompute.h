// SPDX-License-Identifier: Apache-2.0
//
// Measures this rank's rate of computation with libtorch's operators.
#pragma once

#include "core/Backend.h"

namespace fcdp::run {

/// Seconds for one floating-point operation of a square matrix product, in
/// operands of `type`, f64, f32, bf16 or f16.
double secondsPerFlop(DType type);

/// Seconds for a byte that is read or written, of a copy that no cache holds.
double secondsPerByte();

/// Seconds of an operator that has next to nothing to do.
double secondsPerLaunch();

/// Seconds for a byte of values in bf16 that is coded as a difference and
/// decoded, one half for each.
double secondsPerCodedByte();

} // namespace fcdp::run
