// SPDX-License-Identifier: Apache-2.0
#include "output/AppendedFile.h"

#include "output/Failure.h"

#include <cerrno>
#include <cstring>
#include <sys/stat.h>

namespace fcdp::run {

AppendedFile::AppendedFile(FileDescriptor opened, const std::string &shownAs)
    : file(std::move(opened)), shownAs(shownAs) {
  struct stat status = {};
  isCut = fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode);
  end = status.st_size;
}

void AppendedFile::append(std::string_view record) {
  if (waiting.size() + record.size() > kMostWaiting)
    lostBytes += record.size();
  else
    waiting += record;
  if (writeWaiting() || hasWarned)
    return;
  hasWarned = true;
  printWarning(problem() + "; the run goes on, and tries again");
}

bool AppendedFile::writeWaiting() {
  // One call writes all, so that a reader sees whole records.
  while (!waiting.empty()) {
    ssize_t wrote = ::write(file.get(), waiting.data(), waiting.size());
    if (wrote == ssize_t(waiting.size())) {
      end += wrote;
      waiting.clear();
      return true;
    }
    if (wrote < 0 && errno == EINTR)
      continue;
    reason = std::strerror(wrote < 0 ? errno : ENOSPC);
    if (wrote > 0 && !isCut) {
      waiting.erase(0, size_t(wrote));
      continue;
    }
    if (isCut && ftruncate(file.get(), end) != 0)
      isCut = false;
    return false;
  }
  return true;
}

std::string AppendedFile::problem() const {
  return shownAs + ": cannot be written: " + reason +
         (lostBytes ? "; " + std::to_string(lostBytes) + " bytes are lost"
                    : "");
}

} // namespace fcdp::run
