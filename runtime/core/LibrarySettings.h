// SPDX-License-Identifier: Apache-2.0
//
// Settings of other libraries by variables of the environment. `setenv` may
// move the environment while another thread reads it. So a program calls
// `reserveLibrarySettings` before it has threads, and a rank that learns a
// setting later puts it into the reserved place.
#pragma once

#include <string>

namespace fcdp {

/// The number of hardware queues of a device, the most that CUDA allows.
/// Streams that share a queue wait for each other. The default of 8 (CUDA C++
/// Programming Guide, "CUDA Environment Variables") is too few for the plan's 7
/// streams and those of libtorch and of each NCCL communicator.
inline constexpr int kHardwareQueues = 32;

/// Sets CUDA_DEVICE_MAX_CONNECTIONS to `kHardwareQueues` and reserves places
/// for NCCL_HOSTID, NCCL_SOCKET_IFNAME and CUBLAS_WORKSPACE_CONFIG. Variables
/// that the user has set stay as they are. Must be called while the process has
/// one thread.
void reserveLibrarySettings();

/// Sets a variable unless the environment has it. Returns false, and sets
/// nothing, if no place is reserved for it. Thread-safe, also beside threads
/// that read the environment. Throws std::runtime_error if the value is longer
/// than the place.
bool setLibrarySetting(const std::string &name, const std::string &value);

} // namespace fcdp
