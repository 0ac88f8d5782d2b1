// SPDX-License-Identifier: Apache-2.0
//
// Tensors that a caller passes, and the roles of named states.
#pragma once

#include "plan/StepPlan.h"

#include <cstddef>

namespace fcdp {

/// A tensor of the caller: contiguous, row-major, in host memory.
struct TensorView {
  const std::byte *data;
  DType dtype;
  Shape shape;
};

/// The roles of a named state.
enum class StateRole {
  Value,          ///< a parameter's or a buffer's value
  ExpAvg,         ///< AdamW's first moment, Lion's only one
  ExpAvgSq,       ///< AdamW's second moment
  MomentumBuffer, ///< SGD's or Muon's, AdEMAMix's slower average
  Master,         ///< the parameter in f32, which the optimizer updates
  ExpAvgCode,     ///< a moment in 8 bits, and a scale for each 256 elements
  ExpAvgScale,
  ExpAvgSqCode,
  ExpAvgSqScale,
  RowVar, ///< Adafactor's second moment: means over dimensions, or of each
          ///< element
  ColVar,
  Variance,
};

} // namespace fcdp
