// SPDX-License-Identifier: Apache-2.0
//
// Joins the standard errors of several ranks.
#pragma once

#include <string>

namespace fcdp::run {

/// Passes on what ranks print, but only the first of all their error lines.
/// Used by one thread.
class ErrorLines {
public:
  /// Reads all available bytes from a rank's pipe, which does not block.
  /// Returns false at its end. `rest` keeps an unfinished line between calls.
  bool readFrom(int pipe, std::string &rest);
  /// Prints an error unless one was printed.
  void print(const std::string &message);

private:
  void pass(const std::string &line);
  bool isPrinted = false;
};

} // namespace fcdp::run
