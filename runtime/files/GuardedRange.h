// SPDX-License-Identifier: Apache-2.0
//
// Guards mappings of files that may shrink.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace fcdp {

/// Memory in which an access after the end of the file reads zeros instead of
/// ending the process by SIGBUS.
struct GuardedRange {
  std::atomic<uintptr_t> begin{0}, end{0};
  /// Whether such an access has happened.
  std::atomic<bool> isCut{false};
};

/// Guards memory until `unguard`. Returns null if too many ranges are guarded
/// already. Thread-safe.
GuardedRange *guard(const std::byte *begin, size_t bytes);
void unguard(GuardedRange *range);

} // namespace fcdp
