// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/FileDescriptor.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace fcdp::run {

/// A file of records, each of which is there whole or not at all. What cannot
/// be written, because the disk is full, is kept in memory and tried again with
/// the next record. Used by one thread.
class AppendedFile {
public:
  AppendedFile() = default;
  /// Messages begin with `shownAs`.
  AppendedFile(FileDescriptor file, const std::string &shownAs);

  explicit operator bool() const { return bool(file); }
  /// Prints a warning at the first record that cannot be written.
  void append(std::string_view record);
  /// Records that could not be written, one behind the other, and why.
  const std::string &unwritten() const { return waiting; }
  std::string problem() const;

private:
  /// What is waited for takes at most this memory; older records are lost.
  static constexpr size_t kMostWaiting = size_t(64) << 20;

  /// Returns whether all that waited was written.
  bool writeWaiting();

  FileDescriptor file;
  std::string shownAs, waiting, reason;
  /// Where the last whole record ends, in a file that can be cut.
  int64_t end = 0;
  bool isCut = true, hasWarned = false;
  uint64_t lostBytes = 0;
};

} // namespace fcdp::run
