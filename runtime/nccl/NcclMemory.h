// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/DeviceArena.h"
#include "nccl/NcclLibrary.h"

namespace fcdp {

/// Returns a source of memory that uses ncclMemAlloc. Ranks can map this memory
/// into each other's address spaces. NCCL registers it for NVLink and its
/// switches (NVLS), but memory of cudaMalloc only for the network.
DeviceMemorySource ncclMemory(std::shared_ptr<const NcclLibrary> nccl);

} // namespace fcdp
