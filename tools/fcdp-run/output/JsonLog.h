// SPDX-License-Identifier: Apache-2.0
//
// The file of --json.
#pragma once

#include "core/FileDescriptor.h"

#include <cstdint>
#include <string>

namespace fcdp::run {

/// Appends line by line, so that others can read the file while the run goes on
/// and after any end of it. Used by one thread. Functions throw
/// std::runtime_error.
class JsonLog {
public:
  /// Checks that the file can be written, and leaves it as it is. An empty
  /// path: nothing is written.
  explicit JsonLog(const std::string &path);

  /// Opens the file. Keeps the lines of an earlier part of the job, up to that
  /// of step `lastStep`.
  void begin(int64_t lastStep);
  /// `line` is a JSON object.
  void write(const std::string &line);

private:
  [[noreturn]] void fail(const std::string &doing) const;

  std::string path;
  FileDescriptor file;
};

} // namespace fcdp::run
