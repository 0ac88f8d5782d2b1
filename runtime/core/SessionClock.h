// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace fcdp {

using SessionClock = std::chrono::steady_clock;

inline double secondsSince(SessionClock::time_point begin) {
  return std::chrono::duration<double>(SessionClock::now() - begin).count();
}

} // namespace fcdp
