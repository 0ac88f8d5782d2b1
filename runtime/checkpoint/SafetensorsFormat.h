// SPDX-License-Identifier: Apache-2.0
//
// Declarations that the reader and the writer of safetensors files share.
#pragma once

#include "core/Backend.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace fcdp {

/// Returns the name of a type in safetensors, e.g. "F32".
const char *safetensorsName(DType type);
std::optional<DType> fromSafetensorsName(std::string_view name);

/// Limit on the header's size. The reference implementation has the same limit.
inline constexpr uint64_t kMostHeaderBytes = 100'000'000;

/// Returns how many bytes of a file are in front of its data: the header's size
/// and the header. Throws std::runtime_error if these are not in the file.
size_t safetensorsHeaderBytes(std::span<const std::byte> file);

} // namespace fcdp
