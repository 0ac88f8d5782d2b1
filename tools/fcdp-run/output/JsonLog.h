// SPDX-License-Identifier: Apache-2.0
//
// The file of --json.
#pragma once

#include <fstream>
#include <string>

namespace fcdp::run {

/// Writes line by line to a file beside `path`, and renames it when the run
/// has ended well. Used by one thread. Functions throw std::runtime_error.
class JsonLog {
public:
  /// An empty path: nothing is written.
  explicit JsonLog(const std::string &path);
  ~JsonLog();
  JsonLog(const JsonLog &) = delete;
  JsonLog &operator=(const JsonLog &) = delete;

  void write(const std::string &line);
  void finish();

private:
  void check(const char *doing) const;

  std::string path;
  std::ofstream file;
  bool isOpen = false;
};

} // namespace fcdp::run
