// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace fcdp {

inline std::chrono::milliseconds toMilliseconds(double seconds) {
  return std::chrono::milliseconds(int64_t(seconds * 1000));
}

} // namespace fcdp
