// SPDX-License-Identifier: Apache-2.0
//
// Sums of several chunks, in a fixed order, rounded once.
#pragma once

#include "core/Backend.h"

#include <span>

namespace fcdp {

/// True if chunks of `type` can be summed: f16, bf16, f32, f64.
bool isSummable(DType type);

/// out[i] = sources[0][i] + sources[1][i] + ..., added in that order in f32
/// (in f64 if `inType` is f64) and rounded to `outType` once, to nearest even.
/// `out` may be one of the sources if the types have one size; otherwise they
/// must not overlap. Throws std::runtime_error for types that cannot be summed.
void sumChunks(std::byte *out, DType outType,
               std::span<const std::byte *const> sources, DType inType,
               size_t elements);

/// The same in two levels: the sources of each `groupSize` that follow each
/// other are summed and rounded to `inType`, then the groups' sums. Groups of
/// one, and one group, are what sumChunks sums. `groupSize` divides the number
/// of sources.
void sumGroups(std::byte *out, DType outType,
               std::span<const std::byte *const> sources, size_t groupSize,
               DType inType, size_t elements);

} // namespace fcdp
