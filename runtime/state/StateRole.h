// SPDX-License-Identifier: Apache-2.0
//
// The roles of named states.
#pragma once

namespace fcdp {

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
