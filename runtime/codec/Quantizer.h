// SPDX-License-Identifier: Apache-2.0
//
// Messages of floating-point values that are rounded to a few bits. What the
// rounding leaves out goes into the next message.
#pragma once

#include "core/Backend.h"
#include "core/CodedMessage.h"

#include <span>

namespace fcdp {

/// What a message quantises, which both sides know.
struct Quantization {
  /// Int8 or Int4.
  WireCode code;
  /// Of the values: F32, BF16 or F16.
  DType type;
};

/// Returns the format of Int8 or Int4.
QuantizedFormat formatOf(WireCode code);

/// Quantises `values` plus `residual` into `message`, which has quantizedBytes,
/// and sets `residual` to what `dequantize` will lack. A block with a value
/// that is not finite becomes NaN as a whole, and its residual 0. Takes no
/// memory.
void quantize(const Quantization &quantization,
              std::span<const std::byte> values, std::span<float> residual,
              std::span<std::byte> message);

/// Undoes `quantize` up to its rounding. Throws CodeError, before it writes
/// anything, if the message is damaged or not of this quantisation.
void dequantize(const Quantization &quantization,
                std::span<const std::byte> message,
                std::span<std::byte> values);

} // namespace fcdp
