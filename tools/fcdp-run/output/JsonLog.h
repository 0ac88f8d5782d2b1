// SPDX-License-Identifier: Apache-2.0
//
// The file of --json.
#pragma once

#include "core/FileDescriptor.h"
#include "output/AppendedFile.h"

#include <cstdint>
#include <string>

namespace fcdp::run {

/// Appends line by line, so that others can read the file while the run goes on
/// and after any end of it. Used by one thread.
class JsonLog {
public:
  /// Checks that the file can be written, keeps other jobs from it by whatever
  /// links, and leaves it as it is. An empty path: nothing is written. Throws
  /// std::runtime_error.
  explicit JsonLog(const std::string &path);

  /// Opens the file. Keeps the lines of an earlier part of the job, up to that
  /// of step `lastStep`. Throws std::runtime_error.
  void begin(int64_t lastStep);
  /// `line` is a JSON object.
  void write(const std::string &line);
  /// The lines that could not be written, and why.
  const std::string &unwritten() const { return file.unwritten(); }
  std::string problem() const { return file.problem(); }

private:
  [[noreturn]] void fail(const std::string &doing) const;
  FileDescriptor open(int more) const;
  void lock(const FileDescriptor &opened) const;

  std::string path;
  /// The file, locked, if it was there when the run began.
  FileDescriptor locked;
  AppendedFile file;
};

} // namespace fcdp::run
