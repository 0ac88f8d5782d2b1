// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace fcdp {

/// SHA-256 (FIPS 180-4) as 64 lower-case hex digits. Written here so that the
/// machines that train need no library for it.
std::string sha256(std::string_view text);

} // namespace fcdp
