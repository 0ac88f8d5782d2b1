// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/DeviceArena.h"
#include "nccl/NcclLibrary.h"

namespace fcdp {

/// Returns ncclMemAlloc's memory, which ranks can map into each other's address
/// spaces. NCCL registers it for NVLink and its switches (NVLS), and
/// cudaMalloc's memory only for the network.
DeviceMemorySource ncclMemory(std::shared_ptr<const NcclLibrary> nccl);

} // namespace fcdp
