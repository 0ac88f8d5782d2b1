// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/FileLock.h"

namespace fcdp {

/// Keeps other jobs from saving to the folder of a run.
class RunLock {
public:
  /// Makes the folder unless it is there. Throws std::runtime_error that names
  /// the folder if another job does not end in time.
  explicit RunLock(const std::string &run,
                   std::chrono::milliseconds patience = kPatience);

private:
  static constexpr std::chrono::seconds kPatience{10};

  FileLock lock;
};

} // namespace fcdp
