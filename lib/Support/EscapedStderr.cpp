// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Support/EscapedStderr.h"

#include "fcdp/Support/Printable.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Errno.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <array>
#include <fcntl.h>
#include <string>
#include <thread>
#include <unistd.h>

using namespace llvm;

static std::string escapeLine(StringRef line) {
  auto isTab = [](char c) { return c == '\t'; };
  std::string escaped;
  while (!line.empty()) {
    const StringRef tabs = line.take_while(isTab);
    line = line.drop_front(tabs.size());
    const StringRef text = line.take_until(isTab);
    line = line.drop_front(text.size());
    escaped += tabs.str() + fcdp::printable(text);
  }
  return escaped;
}

namespace {
/// Escapes the output of the process: a thread reads the bytes that are written
/// to the standard error, and writes them escaped.
class Escaper {
public:
  Escaper();
  ~Escaper();

private:
  static void passOn(int input, int output);
  /// Restores the standard error, so that a crash is printed at once.
  static void restore(void *original) {
    dup2(*static_cast<int *>(original), STDERR_FILENO);
  }

  int original = -1;
  std::thread thread;
};
} // namespace

void Escaper::passOn(int input, int output) {
  raw_fd_ostream stream(output, /*shouldClose=*/false, /*unbuffered=*/true);
  std::string text;
  std::array<char, 4096> chunk;
  ssize_t count;
  while ((count = sys::RetryAfterSignal(-1, read, input, chunk.data(),
                                        chunk.size())) > 0) {
    text.append(chunk.data(), count);
    auto [lines, rest] = StringRef(text).rsplit('\n');
    if (lines.size() == text.size()) // no line has ended
      continue;
    SmallVector<StringRef> ended;
    lines.split(ended, '\n');
    for (StringRef line : ended)
      stream << escapeLine(line) << '\n';
    text = rest.str();
  }
  stream << escapeLine(text);
  stream.clear_error(); // as a closed standard error is none of the tool
  close(input);
}

Escaper::Escaper() {
  int ends[2];
  original = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (original < 0 || pipe2(ends, O_CLOEXEC) != 0)
    return;
  thread = std::thread(passOn, ends[0], original);
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
  sys::AddSignalHandler(restore, &original);
}

Escaper::~Escaper() {
  if (!thread.joinable())
    return;
  dup2(original, STDERR_FILENO); // which closes the pipe
  thread.join();
}

void fcdp::escapeStderr() {
  // Static, because reading the command line may end the process.
  static Escaper escaper;
}
