// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <string>

namespace fcdp {

/// Keeps the first of several failures; those after it are its consequences.
/// Thread-safe; `failed` is one atomic load.
class FirstFailure {
public:
  /// True if this was the first one.
  bool set(std::string message);
  bool failed() const { return flag.load(std::memory_order_seq_cst); }
  std::string message() const;

private:
  std::atomic<bool> flag{false};
  mutable std::mutex mutex;
  std::string text;
};

} // namespace fcdp
