// SPDX-License-Identifier: Apache-2.0
#include "output/Failure.h"

#include "core/Printable.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <unistd.h>

namespace fcdp::run {

static const char *ownName = "fcdp-run";

void setProgramName(const char *name) { ownName = name; }
const char *programName() { return ownName; }

std::string errorPrefix() { return std::string(ownName) + ": error: "; }

static void printLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  const std::string line = printable(text) + '\n';
  std::fflush(stdout);
  // One call writes the line, so that lines of several processes do not mix.
  (void)!write(STDERR_FILENO, line.data(), line.size());
}

void printError(const std::string &message) {
  printLine(errorPrefix() + message);
}

void printWarning(const std::string &message) {
  printLine(std::string(programName()) + ": warning: " + message);
}

void printNote(const std::string &message) {
  printLine(std::string(programName()) + ": note: " + message);
}

void FailureExit::own(const std::string &message) { leave(&message); }

void FailureExit::shared(const std::string &message) {
  const bool isSaid =
      isTogether && message.find(" failed: ") != std::string::npos;
  leave(isSaid ? nullptr : &message);
}

void FailureExit::silent() { leave(nullptr); }

void FailureExit::leave(const std::string *message) {
  static std::mutex once;
  // It is never unlocked: later callers wait for the end of the process.
  once.lock();
  if (message)
    printError(*message);
  cleanUp();
  std::fflush(stdout);
  _exit(EXIT_FAILURE);
}

} // namespace fcdp::run
