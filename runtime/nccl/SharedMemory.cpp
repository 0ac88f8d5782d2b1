// SPDX-License-Identifier: Apache-2.0

#include "nccl/SharedMemory.h"

#include <sys/statvfs.h>

namespace fcdp {

/// NCCL's documentation gives a container as much (Troubleshooting, Docker).
constexpr uint64_t kEnoughBytes = uint64_t(1) << 30;

std::string describeSmallSharedMemory(const std::string &folder) {
  struct statvfs system;
  if (statvfs(folder.c_str(), &system) != 0)
    return "";
  return describeSmallSharedMemory(folder, system.f_blocks * system.f_frsize);
}

std::string describeSmallSharedMemory(const std::string &folder,
                                      uint64_t bytes) {
  if (bytes >= kEnoughBytes)
    return "";
  return folder + " has " + std::to_string(bytes >> 20) +
         " MiB, through which NCCL connects the ranks of this machine, and its "
         "documentation asks for " +
         std::to_string(kEnoughBytes >> 20) +
         ": if it fails, start the container with --shm-size=1g or --ipc=host";
}

} // namespace fcdp
