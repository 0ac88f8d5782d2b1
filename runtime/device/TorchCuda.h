// SPDX-License-Identifier: Apache-2.0
//
// Uses libtorch's part for CUDA, which only some builds of it have.
#pragma once

#include "streams/GraphCapture.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <string>

namespace fcdp {

/// Throws std::runtime_error with advice if this program's libtorch cannot run
/// operators on a GPU. The message begins with `reason`.
void requireTorchForCuda(const std::string &reason);

/// Replaces libtorch's allocator of device memory in the whole process, once.
/// It must be called before libtorch has used a GPU. A thread with the scope of
/// a pool on a GPU allocates from that pool, all other threads from libtorch's
/// own caching allocator, which is returned. `devices` is the number of devices
/// that the process sees. Throws c10::Error.
c10::DeviceAllocator &routeCudaAllocations(int devices);

/// Returns `capture`, a capture of that stream, with memory of its own. Raw
/// allocations that kernels make during a capture stay reserved as long as the
/// result lives, because each launch uses them again. `memory` is the result of
/// `routeCudaAllocations`.
std::unique_ptr<GraphCapture>
withOwnMemory(std::unique_ptr<GraphCapture> capture,
              c10::DeviceAllocator &memory, int device, void *stream);

} // namespace fcdp
