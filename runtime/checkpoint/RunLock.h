// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "files/FileLock.h"

namespace fcdp {

/// A lock that keeps other jobs from saving to the folder of a run.
class RunLock {
public:
  /// Creates the folder unless it exists. Throws std::runtime_error that names
  /// the folder if another job still has the lock after `patience`.
  explicit RunLock(const std::string &run,
                   std::chrono::milliseconds patience = kPatience);

private:
  static constexpr std::chrono::seconds kPatience{10};

  FileLock lock;
};

} // namespace fcdp
