// SPDX-License-Identifier: Apache-2.0
//
// Several ranks' standard errors, made one.
#pragma once

#include <string>

namespace fcdp::run {

/// Passes on what ranks print, but of all their error lines only the first.
/// Used by one thread.
class ErrorLines {
public:
  /// Reads all that is there from a rank's pipe, which does not block; false at
  /// its end. `rest` keeps an unfinished line between calls.
  bool readFrom(int pipe, std::string &rest);
  /// Prints an error unless one was printed.
  void print(const std::string &message);

private:
  void pass(const std::string &line);
  bool isPrinted = false;
};

} // namespace fcdp::run
