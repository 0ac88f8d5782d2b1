// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/FileDescriptor.h"

#include <chrono>
#include <string>

namespace fcdp {

/// A lock on a path. Until it is destroyed or its process ends, no other
/// process gets a lock of the same path, on any host that shares the folder.
/// The file is then removed, unless the process was killed. Has no effect on a
/// file system without locks.
class FileLock {
public:
  /// Waits up to this long for another process to release the lock, because a
  /// killed process may still be ending. After that, throws std::runtime_error
  /// "SHOWN_AS: BUSY".
  FileLock(const std::string &path, const std::string &shownAs,
           const std::string &busy, std::chrono::milliseconds patience);
  FileLock(const FileLock &) = delete;
  FileLock &operator=(const FileLock &) = delete;
  ~FileLock();

  /// Locks an open file itself, under any of its names, until it is closed.
  /// Throws as the constructor does.
  static void lockFile(const FileDescriptor &file, const std::string &shownAs,
                       const std::string &busy,
                       std::chrono::milliseconds patience);
  /// Removes the lock file of a process that was killed.
  static void removeUnused(const std::string &path);

private:
  /// Returns whether this process has the lock now.
  bool tryLock();

  const std::string path, shownAs;
  FileDescriptor file;
};

} // namespace fcdp
