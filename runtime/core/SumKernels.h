// SPDX-License-Identifier: Apache-2.0
//
// Sums several chunks in a fixed order, rounded once.
#pragma once

#include "core/Backend.h"

#include <span>

namespace fcdp {

/// Returns whether chunks of `type` can be summed: f16, bf16, f32 and f64 can.
bool isSummable(DType type);

/// Sets out[i] = sources[0][i] + sources[1][i] + ..., added in that order in
/// f32 (in f64 if `inType` is f64) and rounded to `outType` once, to nearest
/// even. `out` may be one of the sources if the types have equal size;
/// otherwise they must not overlap. Throws std::runtime_error for types that
/// cannot be summed.
void sumChunks(std::byte *out, DType outType,
               std::span<const std::byte *const> sources, DType inType,
               size_t elements);

/// Converts elements, rounded to nearest even. Throws std::runtime_error for
/// types that cannot be summed.
void convertElements(std::byte *out, DType outType, const std::byte *in,
                     DType inType, size_t elements);

/// Does the same in two levels. Each group of `groupSize` consecutive sources
/// is summed and rounded to `inType`, then the groups are summed. With one
/// group, or groups of one, the result is that of sumChunks. `groupSize` must
/// divide the number of sources.
void sumGroups(std::byte *out, DType outType,
               std::span<const std::byte *const> sources, size_t groupSize,
               DType inType, size_t elements);

} // namespace fcdp
