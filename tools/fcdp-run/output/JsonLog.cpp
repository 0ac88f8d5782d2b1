// SPDX-License-Identifier: Apache-2.0
#include "output/JsonLog.h"

#include "output/WholeFile.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace fcdp::run {

JsonLog::JsonLog(const std::string &path) : path(path) {
  if (path.empty())
    return;
  file.open(temporaryName(path), std::ios::trunc);
  check("created");
  isOpen = true;
}

JsonLog::~JsonLog() {
  if (isOpen)
    std::remove(temporaryName(path).c_str());
}

void JsonLog::check(const char *doing) const {
  if (!file)
    throw std::runtime_error("--json " + path + ": cannot be " + doing + ": " +
                             std::strerror(errno));
}

void JsonLog::write(const std::string &line) {
  if (!isOpen)
    return;
  file << line << '\n' << std::flush;
  check("written");
}

void JsonLog::finish() {
  if (!isOpen)
    return;
  file.close();
  check("written");
  if (std::rename(temporaryName(path).c_str(), path.c_str()) != 0)
    throw std::runtime_error("--json " + path + ": cannot be renamed from " +
                             temporaryName(path) + ": " + std::strerror(errno));
  isOpen = false;
}

} // namespace fcdp::run
