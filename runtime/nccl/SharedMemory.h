// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace fcdp {

/// Returns a sentence for the user if the file system of `folder` has so few
/// bytes that NCCL may fail to connect the ranks of one machine, which it does
/// through files there. Empty if they suffice, or if the system does not say.
/// Docker gives a container 64 MB; NCCL's documentation asks for 1 GB.
std::string describeSmallSharedMemory(const std::string &folder = "/dev/shm");

/// The same for a file system of `bytes`.
std::string describeSmallSharedMemory(const std::string &folder,
                                      uint64_t bytes);

} // namespace fcdp
