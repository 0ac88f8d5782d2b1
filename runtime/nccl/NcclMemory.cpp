// SPDX-License-Identifier: Apache-2.0

#include "nccl/NcclMemory.h"

#include <stdexcept>

namespace fcdp {

DeviceMemorySource ncclMemory(std::shared_ptr<const NcclLibrary> nccl) {
  auto allocate = [nccl](uint64_t bytes) {
    void *memory = nullptr;
    ncclResult_t result = nccl->ncclMemAlloc(&memory, bytes);
    if (result != ncclSuccess)
      throw std::runtime_error(std::string("ncclMemAlloc: ") +
                               nccl->ncclGetErrorString(result));
    return memory;
  };
  return {allocate, [nccl](void *memory) { (void)nccl->ncclMemFree(memory); }};
}

} // namespace fcdp
