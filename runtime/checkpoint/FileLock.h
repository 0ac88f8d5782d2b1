// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/FileDescriptor.h"

#include <chrono>
#include <string>

namespace fcdp {

/// Keeps other processes, on any host that shares the folder, from a lock of
/// the same path until it is destroyed or its process ends. The file is removed
/// then, unless the process was killed. Has no effect on a file system without
/// locks.
class FileLock {
public:
  /// Waits that long for another process to give the lock up, as one that was
  /// killed may still be ending. Throws std::runtime_error, "SHOWN_AS: BUSY",
  /// if it does not.
  FileLock(const std::string &path, const std::string &shownAs,
           const std::string &busy, std::chrono::milliseconds patience);
  FileLock(const FileLock &) = delete;
  FileLock &operator=(const FileLock &) = delete;
  ~FileLock();

  /// Locks an open file itself until it is closed, whatever its names. Throws
  /// as the constructor does.
  static void lockFile(const FileDescriptor &file, const std::string &shownAs,
                       const std::string &busy,
                       std::chrono::milliseconds patience);
  /// Removes the file of a process that was killed.
  static void removeUnused(const std::string &path);

private:
  /// Returns whether this process has the lock now.
  bool tryLock();

  const std::string path, shownAs;
  FileDescriptor file;
};

} // namespace fcdp
