// SPDX-License-Identifier: Apache-2.0
#include "launch/ErrorLines.h"

#include "output/Failure.h"

#include <unistd.h>

namespace fcdp::run {

void ErrorLines::pass(const std::string &line) {
  if (line.find(errorPrefix()) != std::string::npos) {
    if (isPrinted)
      return;
    isPrinted = true;
  }
  (void)!write(STDERR_FILENO, line.data(), line.size());
}

void ErrorLines::print(const std::string &message) {
  if (!isPrinted)
    printError(message);
  isPrinted = true;
}

bool ErrorLines::readFrom(int pipe, std::string &rest) {
  char buffer[4096];
  ssize_t got;
  while ((got = read(pipe, buffer, sizeof(buffer))) > 0)
    rest.append(buffer, got);
  bool isAtEnd = got == 0;
  size_t end;
  while ((end = rest.find('\n')) != rest.npos) {
    pass(rest.substr(0, end + 1));
    rest.erase(0, end + 1);
  }
  // Progress has no line end.
  const std::string prefix = errorPrefix();
  bool mayBeError = prefix.starts_with(rest) || rest.find(prefix) != rest.npos;
  if (!rest.empty() && (isAtEnd || !mayBeError)) {
    pass(rest);
    rest.clear();
  }
  return !isAtEnd;
}

} // namespace fcdp::run
