// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/FileDescriptor.h"

#include <chrono>
#include <string>

namespace fcdp {

/// Keeps other jobs from saving to the folder of a run, on any host that shares
/// it, until the lock is destroyed or its process ends. Has no effect on a file
/// system without locks.
class RunLock {
public:
  /// Makes the folder unless it is there. Waits that long for another job to
  /// end, as one that was killed may still be ending. Throws std::runtime_error
  /// that names the folder if it does not end.
  explicit RunLock(const std::string &run,
                   std::chrono::milliseconds patience = kPatience);
  RunLock(const RunLock &) = delete;
  RunLock &operator=(const RunLock &) = delete;
  ~RunLock();

private:
  static constexpr std::chrono::seconds kPatience{10};

  /// Returns whether this process has the lock now.
  bool tryLock();

  const std::string run, path;
  FileDescriptor file;
};

} // namespace fcdp
