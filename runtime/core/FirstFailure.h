// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/Failure.h"

#include <atomic>
#include <mutex>
#include <string>

namespace fcdp {

/// Stores the first of several failures, because later ones are its
/// consequences. Thread-safe; `failed` is one atomic load.
class FirstFailure {
public:
  /// Stores the failure unless there is one already. Returns whether it was
  /// stored.
  bool set(std::string message, FailureKind kind = FailureKind::Other);
  bool failed() const { return flag.load(std::memory_order_seq_cst); }
  std::string message() const;
  FailureKind kind() const;

private:
  std::atomic<bool> flag{false};
  mutable std::mutex mutex;
  std::string text;
  FailureKind textKind = FailureKind::Other;
};

} // namespace fcdp
