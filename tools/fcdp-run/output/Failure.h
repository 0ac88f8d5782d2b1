// SPDX-License-Identifier: Apache-2.0
//
// Ends a rank after an error.
#pragma once

#include <functional>
#include <string>

namespace fcdp::run {

/// Sets the name of this program, by which its lines begin: "fcdp-run" unless
/// it is set. It must be called before other functions and other threads.
void setProgramName(const char *name);
const char *programName();

/// Returns the prefix of every error line.
std::string errorPrefix();

/// Prints an error on one line.
void printError(const std::string &message);

/// Print a line on the standard error that is not an error. Thread-safe.
void printWarning(const std::string &message);
void printNote(const std::string &message);

/// Ends a rank, once: prints the message if this rank should print it, cleans
/// up, and exits without running destructors, which could wait for ranks that
/// are gone. Thread-safe; later callers never return.
class FailureExit {
public:
  /// `isTogether` tells whether all ranks print to one place.
  FailureExit(bool isTogether, std::function<void()> cleanUp)
      : isTogether(isTogether), cleanUp(std::move(cleanUp)) {}

  /// Ends with an error of this rank itself.
  [[noreturn]] void own(const std::string &message);
  /// Ends with a message about another rank, "rank 2 (...) stopped: ...", which
  /// all remaining ranks have. Each of them prints it, because no rank knows
  /// which others still can, or whose output is read. But a message that a rank
  /// has printed about itself is not repeated in the same place.
  [[noreturn]] void shared(const std::string &message);
  /// Ends with an error that another rank prints.
  [[noreturn]] void silent();

private:
  [[noreturn]] void leave(const std::string *message);

  bool isTogether;
  std::function<void()> cleanUp;
};

} // namespace fcdp::run
