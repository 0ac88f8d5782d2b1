// SPDX-License-Identifier: Apache-2.0
//
// Writes the file of --json.
#pragma once

#include "core/FileDescriptor.h"
#include "output/AppendedFile.h"

#include <cstdint>
#include <string>

namespace fcdp::run {

/// Appends line by line, so that others can read the file during the run and
/// after any end of it. Used by one thread.
class JsonLog {
public:
  /// Checks that the file can be written, locks it against other jobs, under
  /// any of its links, and leaves it as it is. If the path is empty, nothing is
  /// written. Throws std::runtime_error.
  explicit JsonLog(const std::string &path);

  /// Opens the file. Keeps the lines of an earlier part of the job, up to the
  /// line of step `lastStep`. Throws std::runtime_error.
  void begin(int64_t lastStep);
  /// Appends `line`, a JSON object.
  void write(const std::string &line);
  /// Returns the lines that could not be written. `problem` returns the reason.
  const std::string &unwritten() const { return file.unwritten(); }
  std::string problem() const { return file.problem(); }

private:
  [[noreturn]] void fail(const std::string &doing) const;
  FileDescriptor open(int more) const;
  void lock(const FileDescriptor &opened) const;

  std::string path;
  /// The file, locked, if it existed when the run began.
  FileDescriptor locked;
  AppendedFile file;
};

} // namespace fcdp::run
