// SPDX-License-Identifier: Apache-2.0
//
// What reader and writer of safetensors files share.
#pragma once

#include "core/Backend.h"

#include <optional>
#include <string_view>

namespace fcdp {

/// "F32", ... as safetensors spells it.
const char *safetensorsName(DType type);
std::optional<DType> fromSafetensorsName(std::string_view name);

/// Headers above this are refused, as the reference implementation does.
inline constexpr uint64_t kMostHeaderBytes = 100'000'000;

} // namespace fcdp
