// SPDX-License-Identifier: Apache-2.0
#include "core/LibrarySettings.h"

#include <atomic>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>
#include <stdexcept>

namespace fcdp {

namespace {

/// An entry of the environment, `NAME=value`. Its name begins with a small
/// letter, which no library asks for, until it has a value.
struct ReservedSetting {
  const char *name;
  char entry[512] = {};
};

ReservedSetting reservedSettings[] = {
    {"NCCL_HOSTID"}, {"NCCL_SOCKET_IFNAME"}, {"CUBLAS_WORKSPACE_CONFIG"}};

} // namespace

void reserveLibrarySettings() {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", std::to_string(kHardwareQueues).c_str(),
         /*replace=*/0);
  for (ReservedSetting &setting : reservedSettings) {
    if (std::getenv(setting.name))
      continue;
    std::string entry = std::string(setting.name) + "=";
    entry[0] = char(std::tolower(entry[0]));
    std::memcpy(setting.entry, entry.data(), entry.size());
    putenv(setting.entry);
  }
}

bool setLibrarySetting(const std::string &name, const std::string &value) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  if (std::getenv(name.c_str()))
    return true;
  for (ReservedSetting &setting : reservedSettings) {
    if (name != setting.name || !setting.entry[0])
      continue;
    char *begin = setting.entry + name.size() + 1;
    size_t room = size_t(std::end(setting.entry) - begin) - 1;
    if (value.size() > room)
      throw std::runtime_error(name + ": expected at most " +
                               std::to_string(room) + " characters, got '" +
                               value + "'");
    std::memcpy(begin, value.data(), value.size());
    // From here on the library finds it.
    std::atomic_ref<char>(setting.entry[0])
        .store(name[0], std::memory_order_release);
    return std::getenv(name.c_str()) != nullptr;
  }
  return false;
}

} // namespace fcdp
