// SPDX-License-Identifier: Apache-2.0
//
// Rounds floating-point values in messages to a few bits. The rounding error is
// added to the values of the next message.
#pragma once

#include "core/Backend.h"
#include "core/MessageSpec.h"

#include <span>

namespace fcdp {

/// The quantisation of a message, which both sides know.
struct Quantization {
  /// One of Int8 and Int4.
  WireCode code;
  /// The type of the values: F32, BF16 or F16.
  DType type;
};

/// Quantises `values` plus `residual` into `message`, which has quantizedBytes,
/// and sets `residual` to the error of `dequantize`. If a block has a value
/// that is not finite, the whole block becomes NaN, and its residual 0.
/// Allocates no memory.
void quantize(const Quantization &quantization,
              std::span<const std::byte> values, std::span<float> residual,
              std::span<std::byte> message);

/// Undoes `quantize` up to its rounding. Throws CodeError, before it writes
/// anything, if the message is damaged or has another quantisation.
void dequantize(const Quantization &quantization,
                std::span<const std::byte> message,
                std::span<std::byte> values);

} // namespace fcdp
