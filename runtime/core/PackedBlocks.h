// SPDX-License-Identifier: Apache-2.0
//
// Packs the values of a matrix as codes with scales, and unpacks them, with the
// bits of bitsandbytes' dequantization.
#pragma once

#include "core/Backend.h"
#include "core/PackedLayout.h"

#include <cstddef>
#include <span>

namespace fcdp {

/// The values of NF4's codes, from -1 to 1.
std::span<const float, 16> nf4Values();

/// Packs the values of one block: the nearest code of value / scale, and of two
/// equally near codes the lower one. `out` has the bytes of a block, which are
/// zero. A code of 8 bits is for a value that is rounded to f16 first. Returns
/// false if a value or its scale is not finite.
bool packBlock(const PackedLayout &layout, std::span<const float> values,
               std::byte *out);

/// Writes a block, whose bytes are zero, with a given scale and codes: bytes of
/// two NF4 codes each, or signed bytes.
void writeBlock(float scale, std::span<const std::byte> codes, std::byte *out);

/// Unpacks the blocks [first, end) of the matrix to `out`, the contiguous whole
/// matrix in f32, bf16 or f16. Products are in f32, each is rounded, and the
/// result is rounded once to the type. Throws std::runtime_error for another
/// type.
void unpackBlocks(const PackedLayout &layout, const std::byte *packed,
                  int64_t first, int64_t end, DType dtype, std::byte *out);

} // namespace fcdp
