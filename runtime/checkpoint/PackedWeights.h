// SPDX-License-Identifier: Apache-2.0
//
// Packs frozen matrices while weights are read, or reads matrices that
// bitsandbytes has packed.
#pragma once

#include "core/PackedLayout.h"
#include "weights/WeightSource.h"

#include <span>

namespace fcdp {

/// Returns the layout of a packed matrix.
PackedLayout layoutOf(const plan::PackedT &packed);

/// Returns, for example, "nf4 of bf16[64, 64]", or none for a parameter that is
/// not packed.
std::optional<std::string> describePacked(const plan::ParameterT &parameter);

/// Writes the bytes [first, first + out.size()) of the packed matrix. Reads
/// only the values of the blocks that have some of these bytes. A file has the
/// matrix in a floating type, which is rounded to the model's type and packed,
/// or as bitsandbytes stores it, with its scales beside it. Throws
/// std::runtime_error that names file and parameter.
void loadPacked(const plan::ParameterT &parameter, WeightSource &source,
                int64_t first, std::span<std::byte> out);

/// Returns the unpacked matrix in the model's type. `bytes` has all of its
/// bytes.
std::vector<std::byte> unpackMatrix(const plan::PackedT &packed,
                                    std::span<const std::byte> bytes);

} // namespace fcdp
