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

/// Returns the number of bytes before a file's data: the header's size and the
/// header. Throws std::runtime_error if the file is shorter.
size_t safetensorsHeaderBytes(std::span<const std::byte> file);

} // namespace fcdp
