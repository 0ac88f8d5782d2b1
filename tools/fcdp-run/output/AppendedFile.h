// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/FileDescriptor.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace fcdp::run {

/// A file of records, each of which is written completely or not at all. If a
/// record cannot be written, because the disk is full, it is kept in memory and
/// tried again with the next record. Used by one thread.
class AppendedFile {
public:
  AppendedFile() = default;
  /// Messages begin with `shownAs`.
  AppendedFile(FileDescriptor file, const std::string &shownAs);

  explicit operator bool() const { return bool(file); }
  /// Prints a warning at the first record that cannot be written.
  void append(std::string_view record);
  /// Returns the records that could not be written, one after the other.
  /// `problem` returns the reason.
  const std::string &unwritten() const { return waiting; }
  std::string problem() const;

private:
  /// The most bytes of records that are kept in memory; older records are lost.
  static constexpr size_t kMostWaiting = size_t(64) << 20;

  /// Returns whether all kept records were written.
  bool writeWaiting();

  FileDescriptor file;
  std::string shownAs, waiting, reason;
  /// The end of the last whole record, in a file that can be truncated.
  int64_t end = 0;
  bool isCut = true, hasWarned = false;
  uint64_t lostBytes = 0;
};

} // namespace fcdp::run
