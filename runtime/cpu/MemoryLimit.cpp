// SPDX-License-Identifier: Apache-2.0

#include "cpu/MemoryLimit.h"

#include "core/MemoryError.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace fcdp {
namespace {

constexpr uint64_t unlimited = std::numeric_limits<uint64_t>::max();

/// Returns the sum of `MemAvailable` and `SwapFree` in bytes. The file has KiB.
uint64_t systemMemory() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  uint64_t kib, total = 0;
  bool found = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    if (!(fields >> key >> kib))
      continue;
    if (key == "MemAvailable:" || key == "SwapFree:") {
      total += kib * 1024;
      found |= key == "MemAvailable:";
    }
  }
  return found ? total : unlimited;
}

uint64_t readNumber(const std::string &path) {
  std::ifstream file(path);
  uint64_t value;
  return file >> value ? value : unlimited; // "max" means unlimited
}

/// Returns the bytes that the control groups (version 2) of the process leave:
/// the least of limit minus use over the group and its ancestors. Page cache
/// counts as free.
uint64_t controlGroupMemory() {
  const std::string root = "/sys/fs/cgroup";
  std::ifstream file("/proc/self/cgroup");
  uint64_t least = unlimited;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("0::", 0) != 0)
      continue;
    for (std::string group = line.substr(3);;
         group.resize(group.find_last_of('/'))) {
      uint64_t limit = readNumber(root + group + "/memory.max");
      uint64_t used = readNumber(root + group + "/memory.current");
      if (limit != unlimited && used != unlimited) {
        std::ifstream stat(root + group + "/memory.stat");
        std::string key;
        uint64_t value, cache = 0;
        while (stat >> key >> value)
          if (key == "inactive_file" || key == "active_file")
            cache += value;
        used -= std::min(used, cache);
        least = std::min(least, limit - std::min(limit, used));
      }
      if (group.find_last_of('/') == std::string::npos || group.empty())
        break;
    }
  }
  return least;
}

} // namespace

uint64_t availableMemory() {
  return std::min(systemMemory(), controlGroupMemory());
}

void requireMemory(const std::string &purpose, uint64_t bytes) {
  uint64_t available = availableMemory();
  if (bytes > available)
    throw MemoryError("not enough memory for " + purpose + ": it needs " +
                      std::to_string(bytes) + " bytes, " +
                      std::to_string(available) + " are available");
}

} // namespace fcdp
